package agent

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/backoff"
)

// sendGARP announces this node's local addresses on their segments when that is due. done.Next then is the
// time of the next announcement, if it is the earliest.
func (a *Agent) sendGARP(ctx context.Context, now time.Time, seen *observation, plan announce.Plan, done *announce.Outcome) {
	// This pass claims only addresses that are here. A claim of an earlier pass is dropped if its address was
	// not here after the last pass.
	local, held := plan.Locals(), a.held.read()
	verify := seen.Agent != nil && seen.Agent.GARP.Verify
	a.pacer.forget(func(ip netip.Addr, link string) bool {
		return local[ip] == nil || local[ip].Address.Link != link || verify && held[ip] != link
	})
	for _, c := range a.addresses.Claim(now, seen.Situation, plan, done, held, seen.newMACs) {
		sent := c.Urgent && a.send(ctx, c.IP, c.Link)
		a.pacer.add(time.Now(), c, sent)
	}
}

// send announces ip once on the segment of link, and reports whether the kernel took it.
func (a *Agent) send(ctx context.Context, ip netip.Addr, link string) bool {
	sent, failed := a.Metrics.garpSent, a.Metrics.garpErrors
	if addr.FamilyOf(ip) == addr.V6 {
		sent, failed = a.Metrics.naSent, a.Metrics.naErrors
	}
	if err := a.Kernel.Claim(ctx, link, ip); err != nil {
		failed.Inc()
		a.Log.WarnContext(ctx, "claimNotSent", "address", ip, "interface", link, "error", err)
		return false
	}
	sent.Inc()
	return true
}

// pacer holds the announcements that wait for their turn. It is safe for concurrent use.
//
// Switches that inspect ARP switch off a port that sends more than 15 packets in a second. The first
// announcement of an address that moved here does not wait: its clients would wait too. It counts, so that
// the others wait for longer. An address that waits needs no second announcement.
type pacer struct {
	mu     sync.Mutex
	queues map[string]*queue
	work   chan struct{}
}

// queue is what waits for one link. sent holds the times of the packets of the last second.
type queue struct {
	waiting []netip.Addr
	sent    []time.Time
}

const packetsPerSecond = 15

func newPacer() *pacer { return &pacer{queues: map[string]*queue{}, work: make(chan struct{}, 1)} }

// add adds c, or only counts its packets if it was sent at now. An urgent one that the kernel did not take
// comes before all others.
func (p *pacer) add(now time.Time, c announce.Claim, sent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[c.Link]
	if q == nil {
		q = &queue{}
		p.queues[c.Link] = q
	}
	switch {
	case sent:
		q.note(now, c.IP)
		return
	case c.Urgent:
		q.waiting = slices.DeleteFunc(q.waiting, func(ip netip.Addr) bool { return ip == c.IP })
		q.waiting = slices.Insert(q.waiting, 0, c.IP)
	case !slices.Contains(q.waiting, c.IP):
		q.waiting = append(q.waiting, c.IP)
	}
	backoff.Poke(p.work)
}

// note counts the packets of an announcement of ip: two for IPv4, see linux.Claim.
func (q *queue) note(now time.Time, ip netip.Addr) {
	if q.sent = append(q.sent, now); ip.Is4() {
		q.sent = append(q.sent, now)
	}
}

// take returns the announcements to send at now, and when to send more, or zero.
func (p *pacer) take(now time.Time) (all []announce.Claim, next time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for link, q := range p.queues {
		q.sent = slices.DeleteFunc(q.sent, func(at time.Time) bool { return now.Sub(at) >= time.Second })
		for len(q.waiting) > 0 && len(q.sent) < packetsPerSecond-1 {
			q.note(now, q.waiting[0])
			all = append(all, announce.Claim{IP: q.waiting[0], Link: link})
			q.waiting = q.waiting[1:]
		}
		if len(q.waiting) > 0 {
			next = announce.Sooner(next, q.sent[0].Add(time.Second))
		} else if len(q.sent) == 0 {
			delete(p.queues, link)
		}
	}
	return all, next
}

// forget drops the announcements of addresses that have gone.
func (p *pacer) forget(gone func(ip netip.Addr, link string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for link, q := range p.queues {
		q.waiting = slices.DeleteFunc(q.waiting, func(ip netip.Addr) bool { return gone(ip, link) })
	}
}

// paceClaims sends the announcements whose turn has come, until ctx is done. Between these it sleeps.
func (a *Agent) paceClaims(ctx context.Context) {
	for ctx.Err() == nil {
		due, next := a.pacer.take(time.Now())
		for _, c := range due {
			a.send(ctx, c.IP, c.Link)
		}
		if next.IsZero() {
			select {
			case <-a.pacer.work:
			case <-ctx.Done():
			}
		} else {
			backoff.Sleep(ctx, time.Until(next))
		}
	}
}
