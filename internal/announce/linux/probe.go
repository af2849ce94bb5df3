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
	"purelb.io/purelb/internal/backoff"
)

// probeBurst is how many questions a probe sends in a millisecond. The number is small
// enough for the queues on the way, and for the queue of a host that has to answer all of
// them.
const probeBurst = 32

// probePauses is how often a probe waits for room in the queue of the link, for 1, 2, 4 ...
// milliseconds: a second in all.
const probePauses = 10

// probeLag is the delay that a probe makes up for with one larger burst, after this process
// had to wait for a CPU.
const probeLag = 8 * time.Millisecond

// errNoCarrier means that the link was down during a part of the probe, so that no host could
// answer.
var errNoCarrier = errors.New("the link has no carrier, or had none for a while")

// Probe asks on the segment of a link which machines have addrs. For each address with an answer, it returns the
// MACs of all machines that answered. It takes the time that p sets, plus a millisecond for every
// 32 questions. Answers do not shorten that time. There is one question for each address, or two if
// p has a source for it. On a link without neighbors Probe returns at once.
//
// Unsolicited announcements are answers too. So are probes by other machines for the same
// address: two machines that want an address must not both conclude that it is free.
// Packets from other links of this node are not answers. Probe reports an address as silent
// only if every host was able to answer. If a question could not be sent, or the link was
// down or this process stood still meanwhile, it returns an error.
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
		return nil, errNoCarrier
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

// hearAnswers makes q receive packets about its addresses until leave is called.
//
// IPv6 probes of other machines go only to the solicited-node group of the address.
// Meanwhile the link accepts all multicast groups. Many addresses would require that
// anyway, because a network card can filter only few groups. Kernels log the change. So
// hearAnswers does not make it if all questions are about IPv4. It does not make it for
// ordinary requests either, because their answers are unicast.
func (s *Stack) hearAnswers(q *inquiry, requests bool) (leave func() error, err error) {
	answers := &listener{hear: q.hear}
	var scope [2]scope
	for a := range q.silent {
		scope[familyIndex(a)].add(q.link.Index, numberOf(a))
	}
	leave = func() error { return s.receiver.remove(answers) }
	if scope[indexIPv6].links != nil && !requests {
		if err := s.receiver.sockets[indexIPv6].group(q.link.Index, true); err != nil {
			return nil, err
		}
		leave = func() error { return errors.Join(s.leaveGroups(q.link), s.receiver.remove(answers)) }
	}
	if err := s.receiver.add(answers, scope); err != nil {
		return nil, errors.Join(err, leave())
	}
	return leave, nil
}

// leaveGroups makes the link stop accepting all groups.
func (s *Stack) leaveGroups(l link) error {
	err := s.receiver.sockets[indexIPv6].group(l.Index, false)
	if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENODEV) {
		return nil // the link has gone, and its setting with it
	}
	return err
}

// askAll sends the number of rounds of questions that p sets, and waits for the answers.
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

// question is a packet that asks who has an address, and its destination.
type question struct {
	about    netip.Addr
	protocol uint16
	to       [8]byte
	packet   []byte
}

// questions returns the questions to ask on l about addrs.
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
			if mac, at := p.Known[a]; at {
				copy(q.to[:], mac[:])
			}
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

// askOnce sends all questions, at a rate that the segment can take.
func (s *Stack) askOnce(ctx context.Context, l link, all []question) error {
	due := time.Now()
	for burst := range slices.Chunk(all, probeBurst) {
		if err := s.wait(ctx, time.Until(due)); err != nil {
			return err
		}
		for _, q := range burst {
			if err := s.send(ctx, l, q.protocol, q.to, q.packet); err != nil {
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

// send sends a packet, and waits for room in the queue of the link.
func (s *Stack) send(ctx context.Context, l link, protocol uint16, to [8]byte, packet []byte) error {
	for try := 0; ; try++ {
		err := s.transmit(l, protocol, to, packet)
		full := errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS)
		if !full || try == probePauses {
			return err
		}
		if err := s.wait(ctx, time.Millisecond<<try); err != nil {
			return err
		}
	}
}

// checkHeard returns an error if the link was down meanwhile. Otherwise it processes all
// answers that have arrived.
func (s *Stack) checkHeard(ctx context.Context, before link) error {
	after, err := s.link(ctx, before.Name)
	if err != nil {
		return err
	}
	if !after.works() || after.Index != before.Index || after.Flaps != before.Flaps {
		return errNoCarrier
	}
	return s.receiver.catchUp()
}

func (l link) works() bool { return l.Up && l.Carrier }

// ownMACs returns the Ethernet addresses of the links of this node. Each link may answer
// for addresses on another link.
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

// standstill is the delay at the end of a wait that proves that this process did not run meanwhile.
// After such a delay, earlier packets are no proof of the present state of the segment.
const standstill = time.Second

// errStoodStill means that this process did not run for a while during a probe.
var errStoodStill = errors.New("this process stood still for more than a second")

// wait waits for d. On a busy machine that takes a little longer.
func wait(ctx context.Context, d time.Duration) error {
	began := time.Now()
	if !backoff.Sleep(ctx, d) {
		return ctx.Err()
	}
	if d > 0 && time.Since(began) > d+standstill {
		return errStoodStill
	}
	return nil
}
