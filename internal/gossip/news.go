package gossip

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// news is whether there are any: what some have been told and others not yet.
//
// The library has rounds in which it passes them on, and makes these all day, as
// it does not look first whether there are any. Each wakes the process up, and an
// idle agent costs little but that. But it adds the news to every question and
// answer too. So its rounds are off: when a packet is seen with news we make our
// own, until there are none any more.
type news struct {
	fresh atomic.Bool   // since the last round there were some
	come  chan struct{} // they are the first
}

func newNews() news { return news{come: make(chan struct{}, 1)} }

// compound is the first byte of a packet with more in it than a question or an
// answer, in the format of the library.
const compound = 7

// look sees the plain text of every packet that comes or goes.
func (n *news) look(packet []byte) {
	if len(packet) > 0 && packet[0] == compound {
		n.rouse()
	}
}

// rouse says that there are news.
func (n *news) rouse() {
	n.fresh.Store(true)
	poke(n.come)
}

// passOn passes news on until ctx is done.
func (g *Gossip) passOn(ctx context.Context, list *memberlist.Memberlist) {
	var asking sync.WaitGroup
	defer asking.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.news.come:
		}
		// The library may not have understood yet what was just seen.
		for wait := g.opt.Timing.Spread / 4; g.news.fresh.Swap(false); wait = g.opt.Timing.Spread {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			g.round(list, &asking)
		}
	}
}

// round asks some others whether they live: who is asked hears the news, and the
// answer tells what is news there. That there may be none does not matter.
func (g *Gossip) round(list *memberlist.Memberlist, asking *sync.WaitGroup) {
	g.mu.Lock()
	others := g.table.some(listeners, g.self)
	g.mu.Unlock()
	for _, p := range others {
		asking.Go(func() { _, _ = list.Ping(p.id.String(), net.UDPAddrFromAddrPort(p.address)) })
	}
}
