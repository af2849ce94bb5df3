package gossip

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"purelb.io/purelb/internal/backoff"
)

// pendingBroadcasts records whether there are broadcasts that some members may not have
// received yet.
//
// The library sends broadcasts in regular rounds, even when it has none. Each round wakes
// the process up, and an idle agent has few other costs. The library also adds broadcasts
// to every ping and every answer. So the rounds of the library are off. When this process
// sees a packet with broadcasts, it runs rounds of its own until it sees no more of them.
type pendingBroadcasts struct {
	fresh atomic.Bool   // this process saw broadcasts since the last round
	first chan struct{} // signals that this process saw broadcasts
}

func newPendingBroadcasts() pendingBroadcasts {
	return pendingBroadcasts{first: make(chan struct{}, 1)}
}

// compound is the first byte of a packet that contains more than one message, in the format
// of the library. Such a packet carries broadcasts beside a ping or an answer.
const compound = 7

// look reads the plain text of every packet that this process sends or receives.
func (p *pendingBroadcasts) look(packet []byte) {
	if len(packet) > 0 && packet[0] == compound {
		p.note()
	}
}

// note records that there are broadcasts.
func (p *pendingBroadcasts) note() {
	p.fresh.Store(true)
	backoff.Poke(p.first)
}

// broadcast spreads each published record, and runs rounds of broadcasts, until ctx is done.
func (g *Gossip) broadcast(ctx context.Context, list *memberlist.Memberlist) {
	var asking sync.WaitGroup
	defer asking.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.pending.first:
		}
		// The library may not have processed the packet yet.
		for wait := g.opt.Timing.Spread / 4; g.pending.fresh.Swap(false); wait = g.opt.Timing.Spread {
			if g.published.Swap(false) {
				_ = list.UpdateNode(time.Nanosecond) // it makes a broadcast, and does not wait for its end
			}
			if !backoff.Sleep(ctx, wait) {
				return
			}
			g.round(list, &asking)
		}
	}
}

// round pings some members. Each ping carries broadcasts of this process, and each answer
// carries broadcasts of the member. A missing answer is no error.
func (g *Gossip) round(list *memberlist.Memberlist, asking *sync.WaitGroup) {
	g.mu.Lock()
	others := g.table.some(listeners, g.self)
	g.mu.Unlock()
	for _, p := range others {
		asking.Go(func() { _, _ = list.Ping(p.id.String(), net.UDPAddrFromAddrPort(p.address)) })
	}
}
