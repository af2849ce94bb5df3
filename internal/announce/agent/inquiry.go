package agent

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
)

const (
	// inquiryWait is how long an agent may take to say whether it has an address. An address
	// without an answer in time counts as held.
	inquiryWait = 400 * time.Millisecond
	// inquiriesAtOnce limits how many agents are asked at a time. All of them may answer at once,
	// and a full inbox drops answers.
	inquiriesAtOnce = 64
	// answersPerSecond limits the questions that an agent answers. Each costs a message.
	answersPerSecond = 500
	// quietAfterRemoval is the time after the removal of an address in which the agent does not
	// take an answer of this node for that address for a mistake of the kernel.
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
	return answers.Holders(peers, a.denied(ctx, answers.ToAsk(addresses, peers)))
}

// denied asks the agent of each node which of its addresses it has, and returns those that the
// agents denied to have.
func (a *Agent) denied(ctx context.Context, asked map[string][]netip.Addr) announce.Denied {
	ctx, cancel := context.WithTimeout(ctx, inquiryWait)
	defer cancel()
	denied := announce.Denied{}
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
	return denied
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

// answering is what this node tells the agents of other nodes about its addresses. An agent that
// asks waits for inquiryWait at most, and a pass may take longer. So the loop stores a snapshot
// after each pass, and readMessages answers from the snapshot.
type answering struct {
	// snapshot is nil if the addresses of the node are not known.
	snapshot atomic.Pointer[snapshot]
	// misled is an address for which this node answered although it does not have it, or nil.
	misled atomic.Pointer[netip.Addr]

	// readMessages owns the other fields. offered are the addresses that other nodes offered, until
	// the offers expire. The loop may not have read these offers yet.
	offered map[netip.Addr]time.Time
	// answers counts the answers in the second that began then.
	answers int
	began   time.Time
}

// snapshot is what a node has after a pass. It never changes.
type snapshot struct {
	at time.Time
	// carried are the addresses on the node, see announce.Carried.
	carried map[netip.Addr]bool
	// coming are the addresses that the node is about to take.
	coming map[netip.Addr]bool
	// mistaken says that the kernel answers for addresses that only kube-proxy has.
	mistaken bool
	// removed is when the node removed addresses in the last quietAfterRemoval.
	removed map[netip.Addr]time.Time
}

// note replaces the snapshot after a pass, which removed the addresses gone.
func (n *answering) note(next snapshot, gone []netip.Addr) {
	next.removed = make(map[netip.Addr]time.Time, len(gone))
	if last := n.snapshot.Load(); last != nil {
		maps.Copy(next.removed, last.removed)
	}
	for _, ip := range gone {
		next.removed[ip] = next.at
	}
	maps.DeleteFunc(next.removed, func(_ netip.Addr, at time.Time) bool { return next.at.Sub(at) > quietAfterRemoval })
	if !next.mistaken {
		n.misled.Store(nil)
	}
	n.snapshot.Store(&next)
}

// snapshot returns what this node has after a pass: the addresses that were there before the pass,
// which are carried, and the present local addresses.
func (a *Agent) snapshot(now time.Time, seen *observation, carried map[netip.Addr]bool) snapshot {
	for ip := range a.held.read() {
		carried[ip] = true
	}
	return snapshot{at: now, carried: carried, coming: a.takeovers.Coming(), mistaken: announce.AnswersByMistake(seen.Node)}
}

// present returns the snapshot, or nil if it is so old that it proves nothing.
func (n *answering) present(now time.Time) *snapshot {
	s := n.snapshot.Load()
	if s == nil || now.Sub(s.at) > fullCheck+passLimit {
		return nil
	}
	return s
}

// offer records that another node offered addresses. The offer expires at until.
func (n *answering) offer(now, until time.Time, addresses []netip.Addr) {
	maps.DeleteFunc(n.offered, func(_ netip.Addr, until time.Time) bool { return !now.Before(until) })
	if n.offered == nil {
		n.offered = map[netip.Addr]time.Time{}
	}
	for _, ip := range addresses {
		n.offered[ip] = until
	}
}

// allow reports whether answersPerSecond allows one more answer now.
func (n *answering) allow(now time.Time) bool {
	if now.Sub(n.began) >= time.Second {
		n.began, n.answers = now, 0
	}
	n.answers++
	return n.answers <= answersPerSecond
}

// answer returns the answers to question m: which of the addresses this node has or is about
// to take, and which not. ok is false if that is not known, or if there are too many
// questions.
func (n *answering) answer(now time.Time, m announce.Message) (answers []announce.Message, ok bool) {
	s := n.present(now)
	if s == nil || !n.allow(now) {
		return nil, false
	}
	have := announce.Message{Kind: announce.Have, Number: m.Number}
	haveNot := announce.Message{Kind: announce.HaveNot, Number: m.Number}
	for _, ip := range m.Addresses {
		carries, found := s.carried[ip]
		if carries || s.coming[ip] || now.Before(n.offered[ip]) {
			have.Addresses = append(have.Addresses, ip)
			continue
		}
		if found && s.mistaken && ip.Is4() && now.Sub(s.removed[ip]) > quietAfterRemoval {
			n.misled.CompareAndSwap(nil, &ip)
		}
		haveNot.Addresses = append(haveNot.Addresses, ip)
	}
	return slices.DeleteFunc([]announce.Message{have, haveNot}, func(m announce.Message) bool { return len(m.Addresses) == 0 }), true
}

// mail is a message of another agent in the inbox.
type mail struct {
	announce.Message
	from     string
	received time.Time
}

// inboxSize is how many messages wait for the loop. More messages are dropped: a handover
// then ends by its deadline.
const inboxSize = 256

// readInBackground runs readMessages until stop is called: an agent that leaves goes on
// reading.
func (a *Agent) readInBackground(ctx context.Context) (stop func()) {
	ctx, end := context.WithCancel(ctx)
	var reading sync.WaitGroup
	reading.Go(func() { a.readMessages(ctx) })
	return func() { end(); reading.Wait() }
}

// readMessages reads the messages of other agents until ctx is done. It answers questions at
// once, and leaves offers and their answers to the loop.
func (a *Agent) readMessages(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case got := <-a.Peers.Received():
			m, err := announce.Decode(got.Body)
			switch {
			case err != nil:
				a.Log.Debug("messageNotUnderstood", "node", a.Node, "from", got.From, "error", err)
			case m.Kind == announce.Ask:
				answers, ok := a.answering.answer(got.Received, m)
				if !ok {
					a.Log.Debug("inquiryNotAnswered", "node", a.Node, "from", got.From, "addresses", len(m.Addresses))
				}
				sending.Go(func() { a.sendAnswers(ctx, got.From, answers) })
			case m.Kind == announce.Have, m.Kind == announce.HaveNot:
				a.inquiries.answered(got.From, m)
			case m.Kind == announce.Listen:
				sending.Go(func() { a.listenFor(ctx, got.From, m.Addresses) })
			default:
				a.enqueue(mail{m, got.From, got.Received})
			}
		}
	}
}

// enqueue puts l into the inbox.
func (a *Agent) enqueue(l mail) {
	if l.Kind == announce.Take {
		a.answering.offer(l.received, l.received.Add(announce.OfferLimit(a.Handover)), l.Addresses)
	}
	select {
	case a.inbox <- l:
	default:
		a.Log.Debug("messageDropped", "node", a.Node, "from", l.from, "addresses", len(l.Addresses))
	}
}

// sendAnswers sends the answers to the question of another agent.
func (a *Agent) sendAnswers(ctx context.Context, to string, answers []announce.Message) {
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	for _, answer := range answers {
		if err := a.Peers.Send(ctx, to, answer.Encode()); err != nil {
			a.Log.DebugContext(ctx, "answerNotSent", "node", a.Node, "to", to, "error", err)
		}
	}
}
