package linux

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/rtnetlink"
)

// plan is the requests that bring about a change, made from one look at what
// is there. It knows what kernels can and cannot do.
type plan struct {
	marks  bool
	links  map[string]link
	there  []held
	at     map[spot][]held
	steps  []step
	failed []error
}

// spot is an address on a link, whatever its mask.
type spot struct {
	index int
	addr  netip.Addr
}

// subnet is what makes IPv4 addresses of a link primary and secondary.
type subnet struct {
	index  int
	prefix netip.Prefix
}

// step is one request, made for an address.
type step struct {
	address announce.Address
	// old is what the request takes off; it puts on when there is none.
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

// put plans what makes a be there.
//
// IPv6 has an address once on a link: with another mask the old one must go
// first. IPv4 keeps the one with the old mask beside the new, until that is
// removed; but there the flags of an address are fixed. In both cases the
// address is taken off and put on again in one breath.
func (p *plan) put(a announce.Address) {
	index := p.links[a.Link].Index
	if index == 0 {
		p.fail(a, unix.ENODEV)
		return
	}
	is := p.at[spot{index, a.Prefix.Addr()}]
	for _, h := range is {
		if !p.ours(h) {
			p.fail(a, ErrForeign)
			return
		}
	}
	flags := uint16(unix.NLM_F_CREATE | unix.NLM_F_EXCL)
	for _, h := range is {
		switch {
		case mustGo(h, a):
			p.takeOff(a, h)
			// It was unique until now: no need to be silent for the
			// second or two that finding that out takes.
			a.NoDAD = a.NoDAD || !h.Tentative && !h.Failed
		case h.Prefix == a.Prefix:
			flags = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
		}
	}
	p.steps = append(p.steps, step{address: a, req: newAddress(a, index, flags)})
}

// mustGo says that h, the same address on the same link, cannot become a.
func mustGo(h held, a announce.Address) bool {
	if a.Prefix.Addr().Is6() {
		return h.Prefix != a.Prefix
	}
	return h.Prefix == a.Prefix && (a.Anew || h.NoPrefixRoute != a.NoPrefixRoute)
}

// remove plans what makes a be gone.
func (p *plan) remove(a announce.Address) {
	for _, h := range p.at[spot{p.links[a.Link].Index, a.Prefix.Addr()}] {
		if h.Prefix == a.Prefix && p.ours(h) {
			p.takeOff(a, h)
		}
	}
}

// ours says whether h is for us to change. Without marks we believe whoever
// asks for the change.
func (p *plan) ours(h held) bool { return h.Mark == announce.Mark || !p.marks }

func (p *plan) takeOff(a announce.Address, h held) {
	p.steps = append(p.steps, step{address: a, old: &h, req: oldAddress(h.Prefix, h.index)})
}

// promote returns the links that must be told to keep secondary addresses.
//
// By default the kernel deletes with the primary IPv4 address of a subnet, the
// one that was there first, all others of that subnet: those that we still
// want, and those of other people.
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

// spare leaves the primary addresses of l where they are, because of err.
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

// report takes in the results of requests.
func (p *plan) report(results []error) {
	for i, err := range results {
		s := p.steps[i]
		if s.old != nil && (errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENODEV)) {
			continue // gone by itself meanwhile
		}
		if err != nil {
			p.fail(s.address, err)
		}
	}
}

func (p *plan) fail(a announce.Address, err error) {
	p.failed = append(p.failed, &announce.AddressError{Address: a, Err: err})
}
