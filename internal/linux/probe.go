package linux

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
)

// probeBurst is how many questions leave in a millisecond: few enough for the
// queues on the way, and for those of whoever has to answer all of them.
const probeBurst = 32

// probePauses is how often a probe waits for room in the queue of the link, for 1,
// 2, 4 ... milliseconds: a second in all.
const probePauses = 10

// probeLag is what may be made up for at once, after this process had to wait
// for a processor.
const probeLag = 8 * time.Millisecond

// errUnheard is a probe during which the link did not work throughout, so that
// nobody could answer.
var errUnheard = errors.New("the link has no carrier, or had none for a while")

// Probe asks the segment of a link who has addrs, and returns the MACs of all machines
// that answered, for each that any answered for. It takes as long as p says,
// whatever it hears, plus a millisecond for every 32 questions, of which there is one
// for an address, or two if p has a source for it; but no time on a link that has no
// neighbours to ask.
//
// An answer is also who says so unasked, and who probes for the same address:
// two that want it must not both take silence for a yes. What another link of
// this node says is none. And silence is only returned if everybody had the
// chance to speak, just now: when a probe could not be sent, or the link was down
// or this process stood still in between, there is an error.
func (s *Stack) Probe(ctx context.Context, link string, addrs []netip.Addr, p announce.Probing) (announce.Answers, error) {
	l, err := s.link(ctx, link)
	if err == nil && l.hasNeighbors() && len(addrs) > 0 && p.Count > 0 {
		var answers announce.Answers
		if answers, err = s.probe(ctx, l, addrs, p); err == nil {
			return answers, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("probe on %s: %w", link, err)
	}
	return announce.Answers{}, nil
}

func (s *Stack) probe(ctx context.Context, l link, addrs []netip.Addr, p announce.Probing) (answers announce.Answers, err error) {
	if !l.works() {
		return nil, errUnheard
	}
	own, err := s.ownMACs(ctx)
	if err != nil {
		return nil, fmt.Errorf("read links: %w", err)
	}
	q := &inquiry{
		link: l, own: own, silent: make(map[netip.Addr]bool, len(addrs)), answers: announce.Answers{}, heard: map[answer]bool{},
	}
	for _, a := range addrs {
		q.silent[a] = true
	}
	leave, err := s.hearAnswers(q, p.Requests)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, leave()) }()
	if err := s.askAll(ctx, q, addrs, p); err != nil {
		return nil, err
	}
	return q.answers, s.checkHeard(ctx, q.link)
}

// hearAnswers has q hear what is said about its addresses, until leave is called.
//
// Other probes for an IPv6 address are said only to the group of those whose
// address ends alike. The link takes in all groups meanwhile, as for many
// addresses it would have to anyway: a network card knows few of them. Kernels log
// that, so a question about IPv4 alone does without, and so do ordinary requests: their
// answers come to this node alone.
func (s *Stack) hearAnswers(q *inquiry, requests bool) (leave func() error, err error) {
	ear := &listener{hear: q.hear}
	var scope [2]scope
	for a := range q.silent {
		about := &scope[earOf(a)]
		about.links, about.numbers = []int{q.link.Index}, append(about.numbers, numberOf(a))
	}
	leave = func() error { return s.ears.leave(ear) }
	if scope[earIPv6].links != nil && !requests {
		if err := s.ears.each[earIPv6].group(q.link.Index, true); err != nil {
			return nil, err
		}
		leave = func() error { return errors.Join(s.leaveGroups(q.link), s.ears.leave(ear)) }
	}
	if err := s.ears.attend(ear, scope); err != nil {
		return nil, errors.Join(err, leave())
	}
	return leave, nil
}

// leaveGroups has the link take in all groups no more.
func (s *Stack) leaveGroups(l link) error {
	err := s.ears.each[earIPv6].group(l.Index, false)
	if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENODEV) {
		return nil // the link is gone, and with it what was asked of it
	}
	return err
}

// askAll asks as often as p says, and leaves the time for the answers.
func (s *Stack) askAll(ctx context.Context, q *inquiry, addrs []netip.Addr, p announce.Probing) error {
	for round := range p.Count {
		next := time.Now().Add(p.Interval)
		if !p.Everyone {
			addrs = q.unanswered(addrs)
		}
		if err := s.askOnce(ctx, q.link, questions(q.link, addrs, p)); err != nil {
			return err
		}
		if round < p.Count-1 {
			if err := s.wait(ctx, time.Until(next)); err != nil {
				return err
			}
		}
	}
	return s.wait(ctx, p.Wait)
}

// question is a packet that asks who has an address, and where it goes.
type question struct {
	about    netip.Addr
	protocol uint16
	to       [8]byte
	packet   []byte
}

// questions are what to ask on l about each of addrs.
func questions(l link, addrs []netip.Addr, p announce.Probing) []question {
	all := make([]question, 0, 2*len(addrs))
	for _, a := range addrs {
		source, known := p.SourceFor(a)
		q := question{about: a, protocol: unix.ETH_P_ARP, to: broadcastMAC}
		if a.Is6() {
			q.protocol, q.to = unix.ETH_P_IPV6, groupMAC(solicitedNode(a))
		}
		if !known || !p.Requests {
			q.packet = probePacket(l, a)
			all = append(all, q)
		}
		if known {
			q.packet = requestPacket(l, source, a)
			all = append(all, q)
		}
	}
	return all
}

func probePacket(l link, addr netip.Addr) []byte {
	if addr.Is4() {
		return probeARP(l.MAC, addr)
	}
	return probeNS(addr)
}

func requestPacket(l link, source, addr netip.Addr) []byte {
	if addr.Is4() {
		return requestARP(l.MAC, source, addr)
	}
	return requestNS(l.MAC, source, addr)
}

// askOnce asks all questions, as fast as is good for the segment.
func (s *Stack) askOnce(ctx context.Context, l link, all []question) error {
	due := time.Now()
	for burst := range slices.Chunk(all, probeBurst) {
		if err := s.wait(ctx, time.Until(due)); err != nil {
			return err
		}
		for _, q := range burst {
			if err := s.ask(ctx, l, q); err != nil {
				return fmt.Errorf("ask for %s: %w", q.about, err)
			}
		}
		due = due.Add(time.Millisecond)
		if behind := time.Since(due) - probeLag; behind > 0 {
			due = due.Add(behind)
		}
	}
	return nil
}

// ask waits for room in the queue of the link.
func (s *Stack) ask(ctx context.Context, l link, q question) error {
	for try := 0; ; try++ {
		err := s.transmit(l, q.protocol, q.to, q.packet)
		full := errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS)
		if !full || try == probePauses {
			return err
		}
		if err := s.wait(ctx, time.Millisecond<<try); err != nil {
			return err
		}
	}
}

// checkHeard makes sure that all who spoke until now were heard, and that they
// could be.
func (s *Stack) checkHeard(ctx context.Context, before link) error {
	after, err := s.link(ctx, before.Name)
	if err != nil {
		return err
	}
	if !after.works() || after.Index != before.Index || after.flaps != before.flaps {
		return errUnheard
	}
	return s.ears.catchUp()
}

func (l link) works() bool { return l.Up && l.Carrier }

// ownMACs returns the Ethernet addresses of the links of this node. Each of them
// may answer for addresses that are on another.
func (s *Stack) ownMACs(ctx context.Context) (map[[6]byte]bool, error) {
	links, err := s.links(ctx)
	own := make(map[[6]byte]bool, len(links))
	for _, l := range links {
		if l.hasNeighbors() {
			own[l.MAC] = true
		}
	}
	return own, err
}
