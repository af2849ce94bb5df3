package agent

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/election"
	"purelb.io/purelb/internal/membership"
)

const (
	// inquiryWait is how long agents have to say whether they have an address. They do so
	// between two passes. What one does not say in time it counts as having.
	inquiryWait = 400 * time.Millisecond
	// inquiriesAtOnce is how many agents are asked at a time: all of them may answer at
	// once, and what an agent has no room for is lost.
	inquiriesAtOnce = 64
	// answersPerSecond is how many questions of other agents an agent answers. Each costs
	// a message.
	answersPerSecond = 500
	// quietAfterRemoval is for how long after an address was taken off here it proves
	// nothing that this node answered for an address.
	quietAfterRemoval = 10 * time.Second
)

// inquiries are the questions to agents of other nodes that are under way. They are
// safe for concurrent use.
type inquiries struct {
	mu   sync.Mutex
	last uint64 // the number of the last one
	open map[uint64]*inquiry
}

// inquiry is the question to the agent of one node which of some addresses it has.
type inquiry struct {
	node   string
	left   map[netip.Addr]bool
	denied []netip.Addr
	done   chan struct{} // closed when nothing is left
}

// begin notes a question to the agent of node, and returns its number.
func (q *inquiries) begin(node string, addresses []netip.Addr) (uint64, *inquiry) {
	one := &inquiry{node: node, left: make(map[netip.Addr]bool, len(addresses)), done: make(chan struct{})}
	for _, ip := range addresses {
		one.left[ip] = true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.open == nil {
		q.open = map[uint64]*inquiry{}
	}
	q.last++
	q.open[q.last] = one
	return q.last, one
}

// end ends a question, and returns which addresses the agent said not to have.
func (q *inquiries) end(number uint64) []netip.Addr {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.open[number]
	delete(q.open, number)
	return one.denied
}

// answered notes an answer of the agent of node. An answer to what it was not asked is ignored.
func (q *inquiries) answered(node string, m announce.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.open[m.Number]
	if one == nil || one.node != node || len(one.left) == 0 {
		return
	}
	for _, ip := range m.Addresses {
		if one.left[ip] && m.Kind == announce.HaveNot {
			one.denied = append(one.denied, ip)
		}
		delete(one.left, ip)
	}
	if len(one.left) == 0 {
		close(one.done)
	}
}

// holders returns which machines have addresses, by the answers of the segment and of the
// agents of the nodes that answered there.
func (a *Agent) holders(ctx context.Context, addresses []netip.Addr, answers announce.Answers, peers election.Peers) map[netip.Addr][6]byte {
	asked, denied := answers.ToAsk(addresses, peers), announce.Denied{}
	if len(asked) == 0 {
		return answers.Holders(peers, denied)
	}
	ctx, cancel := context.WithTimeout(ctx, inquiryWait)
	defer cancel()
	var mu sync.Mutex
	var wait sync.WaitGroup
	room := make(chan struct{}, inquiriesAtOnce)
	for node, ips := range asked {
		room <- struct{}{}
		wait.Go(func() {
			defer func() { <-room }()
			denies := a.inquire(ctx, node, ips)
			mu.Lock()
			defer mu.Unlock()
			denied.Add(node, denies)
		})
	}
	wait.Wait()
	return answers.Holders(peers, denied)
}

// inquire asks the agent of node which of addresses it has, and returns those that it says
// not to have until ctx is done.
func (a *Agent) inquire(ctx context.Context, node string, addresses []netip.Addr) (denied []netip.Addr) {
	for ; len(addresses) > 0 && ctx.Err() == nil; addresses = addresses[min(len(addresses), announce.MaxAddresses):] {
		some := addresses[:min(len(addresses), announce.MaxAddresses)]
		number, one := a.inquiries.begin(node, some)
		err := a.Peers.Send(ctx, node, announce.Message{Kind: announce.Ask, Number: number, Addresses: some}.Encode())
		if err == nil {
			select {
			case <-one.done:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		denied = append(denied, a.inquiries.end(number)...)
		if err != nil {
			a.Log.DebugContext(ctx, "inquiryUnanswered", "node", a.Node, "of", node, "addresses", len(some), "error", err)
		}
	}
	return denied
}

// answering is what this node answers other agents by. It belongs to the loop.
type answering struct {
	// carried are the addresses on this node after the last pass, see announce.Carried. It
	// is nil when that is not known.
	carried map[netip.Addr]bool
	// removed is when an address was taken off last.
	removed time.Time
	// answers are how many there were in the second that began then.
	answers int
	began   time.Time
	// misled is the first address for which this node answered and that it does not have,
	// or the zero Addr.
	misled netip.Addr
}

// note notes what is on this node after a pass: what was carried before it, and the local
// addresses that are here now.
func (n *answering) note(now time.Time, carried map[netip.Addr]bool, local map[netip.Addr]string, removed bool) {
	n.carried = carried
	for ip := range local {
		n.carried[ip] = true
	}
	if removed {
		n.removed = now
	}
}

// allow says whether one more question is to be answered now.
func (n *answering) allow(now time.Time) bool {
	if now.Sub(n.began) >= time.Second {
		n.began, n.answers = now, 0
	}
	n.answers++
	return n.answers <= answersPerSecond
}

// answer answers the agent of another node which of the addresses this node has, or is about
// to take. It answers nothing when that is not known, or when too much is asked.
func (a *Agent) answer(ctx context.Context, got membership.Message, m announce.Message) {
	if a.answering.carried == nil || !a.answering.allow(got.Received) {
		a.Log.DebugContext(ctx, "inquiryNotAnswered", "node", a.Node, "from", got.From, "addresses", len(m.Addresses))
		return
	}
	have := announce.Message{Kind: announce.Have, Number: m.Number}
	haveNot := announce.Message{Kind: announce.HaveNot, Number: m.Number}
	for _, ip := range m.Addresses {
		carries, found := a.answering.carried[ip]
		switch {
		case carries || a.takeovers.Takes(got.Received, ip):
			have.Addresses = append(have.Addresses, ip)
			continue
		case found && got.Received.Sub(a.answering.removed) > quietAfterRemoval && !a.answering.misled.IsValid():
			a.answering.misled = ip
		}
		haveNot.Addresses = append(haveNot.Addresses, ip)
	}
	a.background.start(ctx, []task{func(ctx context.Context) completion {
		ctx, cancel := context.WithTimeout(ctx, sendLimit)
		defer cancel()
		for _, answer := range []announce.Message{have, haveNot} {
			if len(answer.Addresses) == 0 {
				continue
			}
			if err := a.Peers.Send(ctx, got.From, answer.Encode()); err != nil {
				a.Log.DebugContext(ctx, "answerNotSent", "node", a.Node, "to", got.From, "error", err)
			}
		}
		return nil
	}})
}
