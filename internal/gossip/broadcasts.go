package gossip

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// pendingBroadcasts is whether there is something that some members know and others do
// not yet.
//
// The library has rounds in which it passes broadcasts on. It makes them all day, as it
// does not look first whether there is anything. Each round wakes the process up, and an
// idle agent costs little else. But the library also adds broadcasts to every ping and
// answer. So its rounds are off. When a packet with broadcasts is seen, this process makes
// rounds of its own, until there are none any more.
type pendingBroadcasts struct {
	fresh atomic.Bool   // there were some since the last round
	first chan struct{} // there are some again
}

func newPendingBroadcasts() pendingBroadcasts {
	return pendingBroadcasts{first: make(chan struct{}, 1)}
}

// compound is the first byte of a packet with more in it than a ping or an answer, in
// the format of the library.
const compound = 7

// look sees the plain text of every packet that comes or goes.
func (p *pendingBroadcasts) look(packet []byte) {
	if len(packet) > 0 && packet[0] == compound {
		p.note()
	}
}

// note says that there are broadcasts.
func (p *pendingBroadcasts) note() {
	p.fresh.Store(true)
	poke(p.first)
}

// broadcast passes broadcasts on until ctx is done.
func (g *Gossip) broadcast(ctx context.Context, list *memberlist.Memberlist) {
	var asking sync.WaitGroup
	defer asking.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.pending.first:
		}
		// The library may not have understood yet what was just seen.
		for wait := g.opt.Timing.Spread / 4; g.pending.fresh.Swap(false); wait = g.opt.Timing.Spread {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			g.round(list, &asking)
		}
	}
}

// round pings some members, which thereby get the broadcasts of this process and answer
// with theirs. A member that does not answer does not matter.
func (g *Gossip) round(list *memberlist.Memberlist, asking *sync.WaitGroup) {
	g.mu.Lock()
	others := g.table.some(listeners, g.self)
	g.mu.Unlock()
	for _, p := range others {
		asking.Go(func() { _, _ = list.Ping(p.id.String(), net.UDPAddrFromAddrPort(p.address)) })
	}
}
