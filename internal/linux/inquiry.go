package linux

import (
	"net/netip"
	"sync"
)

// inquiry is the question who has certain addresses, and the answers to it.
type inquiry struct {
	link link
	own  map[[6]byte]bool

	mu      sync.Mutex
	silent  map[netip.Addr]bool
	answers map[netip.Addr][6]byte
}

func (q *inquiry) hear(w said) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.link == q.link.Index && q.silent[w.addr] && !q.own[w.mac] {
		delete(q.silent, w.addr)
		q.answers[w.addr] = w.mac
	}
}

// unanswered returns those of addrs that nobody has answered for.
func (q *inquiry) unanswered(addrs []netip.Addr) (still []netip.Addr) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range addrs {
		if q.silent[a] {
			still = append(still, a)
		}
	}
	return still
}
