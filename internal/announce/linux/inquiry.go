package linux

import (
	"net/netip"
	"sync"

	"purelb.io/purelb/internal/announce"
)

// inquiry is a question to the segment about certain addresses, and the answers.
type inquiry struct {
	link link
	own  map[[6]byte]bool

	mu      sync.Mutex
	silent  map[netip.Addr]bool // false for addresses with an answer
	answers announce.Answers
	heard   map[answer]bool
}

// answer is a machine that answered for an address.
type answer struct {
	addr netip.Addr
	mac  [6]byte
}

// maxAnswers is the largest number of answers that an inquiry stores. The nodes of a large
// segment answer for fewer addresses. The limit is necessary because a machine may forge
// any number of answers.
const maxAnswers = 1 << 18

func (q *inquiry) hear(w said) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, asked := q.silent[w.addr]
	one := answer{w.addr, w.mac}
	if w.link != q.link.Index || !asked || q.own[w.mac] || q.heard[one] || !q.silent[w.addr] && len(q.heard) >= maxAnswers {
		return
	}
	q.silent[w.addr], q.heard[one] = false, true
	q.answers[w.addr] = append(q.answers[w.addr], w.mac)
}

// unanswered returns the addresses without an answer.
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
