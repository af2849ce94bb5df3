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
	// inquiryWait is how long an agent may take to say whether it has an address. It answers
	// between two passes. An address without an answer in time counts as held.
	inquiryWait = 400 * time.Millisecond
	// inquiriesAtOnce limits how many agents are asked at a time: all may answer at once, and
	// answers beyond the room in the inbox are lost.
	inquiriesAtOnce = 64
	// answersPerSecond limits the questions that an agent answers. Each costs a message.
	answersPerSecond = 500
	// quietAfterRemoval is how long after the removal of an address this node ignores that it
	// answered for an address: such an answer proves nothing.
	quietAfterRemoval = 10 * time.Second
)

// inquiries are the open questions to agents of other nodes. They are safe for concurrent
// use.
type inquiries struct {
	mu   sync.Mutex
	last uint64 // the number of the last question
	open map[uint64]*inquiry
}

// inquiry asks the agent of one node which of some addresses it has.
type inquiry struct {
	node   string
	left   map[netip.Addr]bool
	denied []netip.Addr
	done   chan struct{} // closed when every address has an answer
}

// begin records a question to the agent of node, and returns its number.
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

// end ends a question, and returns the addresses that the agent denied to have.
func (q *inquiries) end(number uint64) []netip.Addr {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.open[number]
	delete(q.open, number)
	return one.denied
}

// answered records an answer of the agent of node. It ignores an answer to a question that
// node was not asked.
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

// holders returns which machines have addresses, by the answers on the segment and of the
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

// inquire asks the agent of node which of addresses it has. It waits until ctx is done at
// most, and returns those that the agent denied to have.
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

// answering is the state behind the answers to other agents. The loop owns it.
type answering struct {
	// carried are the addresses on this node after the last pass, see announce.Carried. It is
	// nil if they are not known.
	carried map[netip.Addr]bool
	// removed is when this node last removed an address.
	removed time.Time
	// answers counts the answers in the second that began then.
	answers int
	began   time.Time
	// misled is the first address for which this node answered although it does not have it,
	// or the zero Addr.
	misled netip.Addr
}

// note records the addresses on this node after a pass: those that were there before it, and
// the present local addresses.
func (n *answering) note(now time.Time, carried map[netip.Addr]bool, local map[netip.Addr]string, removed bool) {
	n.carried = carried
	for ip := range local {
		n.carried[ip] = true
	}
	if removed {
		n.removed = now
	}
}

// allow reports whether the agent may answer one more question now.
func (n *answering) allow(now time.Time) bool {
	if now.Sub(n.began) >= time.Second {
		n.began, n.answers = now, 0
	}
	n.answers++
	return n.answers <= answersPerSecond
}

// answer tells the agent of another node which of the addresses this node has, or is about to
// take. It sends no answer if that is not known, or if there are too many questions.
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
