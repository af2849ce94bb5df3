package gossip

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/memberlist"

	"purelb.io/purelb/internal/nodes/detector"
)

// MaxMessage is the largest size of a message in bytes.
const MaxMessage = 1 << 20

// A message on the wire consists of the version, the instance of the receiver, the number
// of the message, the length of the sender's name in two bytes, the sender's name, and the
// body.
const (
	messageVersion = 1
	messageHeader  = 1 + 8 + 8 + 2
)

// Send delivers message to the agent of node. When it returns nil, the network has accepted
// the whole message. Only an answer proves that the agent read it.
func (g *Gossip) Send(ctx context.Context, node string, message []byte) error {
	if err := g.send(ctx, node, message); err != nil {
		return fmt.Errorf("send to the agent of %s: %w", node, err)
	}
	return nil
}

func (g *Gossip) send(ctx context.Context, node string, message []byte) error {
	if len(message) > MaxMessage {
		return fmt.Errorf("%d bytes are more than the %d that are allowed", len(message), MaxMessage)
	}
	g.mu.Lock()
	to, ok := g.table.nodes[node]
	understood := ok && g.table.process(identity{to.Node, to.Instance}).version > 0
	g.mu.Unlock()
	switch {
	case !ok:
		return errors.New("nothing is known of it")
	case !understood:
		return errors.New("it speaks another version of gossip")
	}
	done := make(chan error, 1)
	go func() { done <- g.deliver(to, message) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deliver ends by itself: Timing.Stream limits the dial, and then the transfer.
func (g *Gossip) deliver(to Member, message []byte) error {
	g.talk.RLock()
	list := g.list
	g.talk.RUnlock()
	if list == nil {
		return errAway
	}
	peer := &memberlist.Node{
		Name: identity{to.Node, to.Instance}.String(),
		Addr: to.Address.Addr().AsSlice(), Port: to.Address.Port(),
	}
	return list.SendReliable(peer, g.envelope(to.Instance, message))
}

func (g *Gossip) envelope(to uint64, message []byte) []byte {
	name := g.self.String()
	buf := make([]byte, 0, messageHeader+len(name)+len(message))
	buf = append(buf, messageVersion)
	buf = binary.BigEndian.AppendUint64(buf, to)
	buf = binary.BigEndian.AppendUint64(buf, g.sent.Add(1))
	buf = binary.BigEndian.AppendUint16(buf, uint16(len(name)))
	return append(append(buf, name...), message...)
}

// receive passes on each message for this process once. So replaying a recorded message has
// no effect. It drops a message that waited while this process stood still.
func (g *Gossip) receive(envelope []byte) {
	if len(envelope) > 0 && later(envelope[0], messageVersion) {
		g.strangers.note("unknown", "message", envelope[0])
		return
	}
	if len(envelope) < messageHeader || envelope[0] != messageVersion {
		g.counts.BadFormat.Add(1)
		return
	}
	to, number := binary.BigEndian.Uint64(envelope[1:]), binary.BigEndian.Uint64(envelope[9:])
	end := messageHeader + int(binary.BigEndian.Uint16(envelope[17:]))
	if len(envelope) < end || len(envelope)-end > MaxMessage {
		g.counts.BadFormat.Add(1)
		return
	}
	from, err := parseIdentity(string(envelope[messageHeader:end]))
	switch {
	case err != nil:
		g.counts.BadFormat.Add(1)
	case to != g.self.instance || !g.first(from, number) || !g.fresh(time.Now()):
		g.counts.StaleMessages.Add(1)
	case g.opt.Receive != nil:
		g.opt.Receive(from.node, append([]byte(nil), envelope[end:]...))
	}
}

// first reports whether this is the first message of from with this number.
func (g *Gossip) first(from identity, number uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.windows.First(from.peerID(), number, func(detector.PeerID) bool { return false })
}
