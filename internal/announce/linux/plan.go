package linux

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/rtnetlink"
)

// plan is the list of requests that make a change, computed from one snapshot of the
// addresses. It knows what kernels can and cannot do.
type plan struct {
	marks  bool
	links  map[string]link
	there  []held
	at     map[spot][]held
	steps  []step
	failed []error
}

// spot is an address on a link, regardless of its mask.
type spot struct {
	index int
	addr  netip.Addr
}

// subnet is a subnet on a link: one IPv4 address of it is primary, the others are
// secondary.
type subnet struct {
	index  int
	prefix netip.Prefix
}

// step is one request for an address.
type step struct {
	address announce.Address
	// old is the address that the request removes. If it is nil, the request adds an
	// address.
	old *held
	req *rtnetlink.Request
}

func newPlan(links map[string]link, there []held, marks bool) *plan {
	p := &plan{marks: marks, links: links, there: there, at: make(map[spot][]held, len(there))}
	for _, h := range there {
		at := spot{h.index, h.Prefix.Addr()}
		p.at[at] = append(p.at[at], h)
	}
	return p
}

// put plans the steps that add a, or change the existing address into a.
//
// An IPv6 address exists only once on a link, whatever its mask. To change the mask, the
// old address must be removed first. In IPv4, the address with the old mask stays beside
// the new one until it is removed, but the flags of an address cannot change. In both
// cases, the plan removes the address and adds it again in one batch.
func (p *plan) put(a announce.Address) {
	index := p.links[a.Link].Index
	if index == 0 {
		p.fail(a, unix.ENODEV)
		return
	}
	is := p.at[spot{index, a.Prefix.Addr()}]
	for _, h := range is {
		if !p.ours(h, a) {
			p.fail(a, ErrForeign)
			return
		}
	}
	flags := uint16(unix.NLM_F_CREATE | unix.NLM_F_EXCL)
	for _, h := range is {
		switch {
		case mustGo(h, a):
			p.takeOff(a, h)
			// The address was unique until now. Another duplicate address detection would
			// keep it unusable for a second or two.
			a.NoDAD = a.NoDAD || !h.Tentative && !h.Failed
		case h.Prefix == a.Prefix:
			flags = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
		}
	}
	p.steps = append(p.steps, step{address: a, req: newAddress(a, index, flags)})
}

// mustGo reports whether h must be removed before a is added. h is the same address on the
// same link, and the kernel cannot change it into a.
func mustGo(h held, a announce.Address) bool {
	if a.Prefix.Addr().Is6() {
		return h.Prefix != a.Prefix
	}
	return h.Prefix == a.Prefix && (a.Anew || h.NoPrefixRoute != a.NoPrefixRoute)
}

// remove plans to remove a.
func (p *plan) remove(a announce.Address) {
	for _, h := range p.at[spot{p.links[a.Link].Index, a.Prefix.Addr()}] {
		if h.Prefix == a.Prefix && p.ours(h, a) {
			p.takeOff(a, h)
		}
	}
}

// ours reports whether we may change h into a, or remove it. If the kernel does not store marks, only the
// caller knows, and ours returns true.
func (p *plan) ours(h held, a announce.Address) bool {
	return h.Mark == announce.Mark || !p.marks || a.Join && h.Mark == 0
}

func (p *plan) takeOff(a announce.Address, h held) {
	p.steps = append(p.steps, step{address: a, old: &h, req: oldAddress(h.Prefix, h.index)})
}

// promote returns the links that must be set to keep secondary addresses.
//
// The IPv4 address that was added first in a subnet is the primary one. By default, when
// the kernel deletes that address, it also deletes all other addresses of the subnet:
// addresses that we still want, and addresses of other programs.
func (p *plan) promote() []link {
	gone := make(map[spot]bool)
	primary := make(map[subnet]bool)
	for _, s := range p.steps {
		if s.old == nil {
			continue
		}
		gone[spot{s.old.index, s.old.Prefix.Addr()}] = true
		if s.old.primary() {
			primary[subnetOf(*s.old)] = true
		}
	}
	orphaned := make(map[int]bool)
	for _, h := range p.there {
		if h.Secondary && primary[subnetOf(h)] && !gone[spot{h.index, h.Prefix.Addr()}] {
			orphaned[h.index] = true
		}
	}
	var links []link
	for _, l := range p.links {
		if orphaned[l.Index] && !l.promotes {
			links = append(links, l)
		}
	}
	return links
}

func (h held) primary() bool { return h.Prefix.Addr().Is4() && !h.Secondary }

func subnetOf(h held) subnet { return subnet{h.index, h.Prefix.Masked()} }

// spare removes from the plan the steps that remove primary addresses of l, because of err.
func (p *plan) spare(l link, err error) {
	var steps []step
	for _, s := range p.steps {
		if s.old != nil && s.old.index == l.Index && s.old.primary() {
			p.fail(s.address, err)
			continue
		}
		steps = append(steps, s)
	}
	p.steps = steps
}

func (p *plan) requests() []*rtnetlink.Request {
	reqs := make([]*rtnetlink.Request, len(p.steps))
	for i, s := range p.steps {
		reqs[i] = s.req
	}
	return reqs
}

// report records the results of the requests.
func (p *plan) report(results []error) {
	for i, err := range results {
		s := p.steps[i]
		if s.old != nil && (errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENODEV)) {
			continue // it has gone meanwhile
		}
		if err != nil {
			p.fail(s.address, err)
		}
	}
}

func (p *plan) fail(a announce.Address, err error) {
	p.failed = append(p.failed, &announce.AddressError{Address: a, Err: err})
}
