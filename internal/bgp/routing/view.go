package routing

import (
	"cmp"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/rtnetlink"
)

// linkAddress is an address on a link.
type linkAddress struct {
	link   int
	prefix netip.Prefix
}

// view is the known links and addresses of the node, and the addresses that were reported to the
// caller of Import. It processes the messages of the kernel one by one, so that the cost of one
// change does not depend on the number of addresses.
type view struct {
	patterns []string
	links    map[int]link
	// held are the usable global addresses of all links, and whether they are of services.
	held map[linkAddress]bool
	// reported are the addresses that the caller of Import knows.
	reported map[linkAddress]peering.Imported
	// touched are the addresses whose state may differ from reported.
	touched map[linkAddress]bool
	// stale means that everything must be read again.
	stale bool
}

func newView(patterns []string) *view {
	return &view{
		patterns: patterns,
		links:    make(map[int]link),
		held:     make(map[linkAddress]bool),
		reported: make(map[linkAddress]peering.Imported),
		touched:  make(map[linkAddress]bool),
	}
}

// see replaces all known links and addresses.
func (v *view) see(links []link, addresses []holding) {
	for s := range v.held {
		v.touched[s] = true
	}
	clear(v.links)
	clear(v.held)
	for _, l := range links {
		v.links[l.index] = l
	}
	for _, h := range addresses {
		v.add(h)
	}
	v.stale = false
}

// hear processes a message. A message that it cannot parse makes the view stale.
func (v *view) hear(h rtnetlink.Header, body []byte) {
	switch h.Kind {
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		v.hearAddress(h.Kind, body)
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		v.hearLink(h.Kind, body)
	}
}

func (v *view) hearAddress(kind uint16, body []byte) {
	a, err := parseHolding(body)
	if err != nil {
		v.stale = true
		return
	}
	if _, known := v.links[a.link]; !known && kind == unix.RTM_NEWADDR {
		v.stale = true
	}
	if kind == unix.RTM_NEWADDR {
		v.add(a)
	} else {
		v.remove(linkAddress{a.link, a.prefix})
	}
}

// add adds or updates an address. It removes one that is no longer usable, such as a duplicate.
func (v *view) add(h holding) {
	s := linkAddress{h.link, h.prefix}
	if !h.usable() || !h.global() {
		v.remove(s)
		return
	}
	if service, there := v.held[s]; !there || service != h.service {
		v.held[s], v.touched[s] = h.service, true
	}
}

func (v *view) remove(s linkAddress) {
	if _, there := v.held[s]; there {
		delete(v.held, s)
		v.touched[s] = true
	}
}

func (v *view) hearLink(kind uint16, body []byte) {
	if len(body) > 0 && body[0] != unix.AF_UNSPEC {
		return // a message about a port of a bridge
	}
	l, err := parseLink(body)
	if err != nil {
		v.stale = true
		return
	}
	before := v.links[l.index]
	after := l
	if kind == unix.RTM_DELLINK {
		after = link{}
		delete(v.links, l.index)
	} else {
		v.links[l.index] = l
	}
	if v.imports(before) == v.imports(after) && before.name == after.name {
		return
	}
	for s := range v.held {
		if s.link == l.index {
			v.touched[s] = true
		}
	}
	// When the state of a link changes, IPv6 drops, keeps or checks its addresses, and
	// kernels differ in that.
	v.stale = v.stale || matches(v.patterns, before.name) || matches(v.patterns, after.name)
}

// imports reports whether the addresses of l are imported.
func (v *view) imports(l link) bool { return l.up && matches(v.patterns, l.name) }

// settle returns the difference between the current state and reported, and updates reported.
func (v *view) settle() (come, gone []peering.Imported) {
	for s := range v.touched {
		was, known := v.reported[s]
		is, there := v.imported(s)
		if was == is {
			continue
		}
		if known {
			gone = append(gone, was)
			delete(v.reported, s)
		}
		if there {
			come = append(come, is)
			v.reported[s] = is
		}
	}
	clear(v.touched)
	slices.SortFunc(come, compareImported)
	slices.SortFunc(gone, compareImported)
	return come, gone
}

// imported returns the address at s, and false if there is none to import.
func (v *view) imported(s linkAddress) (peering.Imported, bool) {
	service, there := v.held[s]
	l := v.links[s.link]
	if !there || !v.imports(l) {
		return peering.Imported{}, false
	}
	return peering.Imported{Address: s.prefix, Interface: l.name, Service: service}, true
}

func compareImported(a, b peering.Imported) int {
	return cmp.Or(
		cmp.Compare(a.Interface, b.Interface),
		a.Address.Addr().Compare(b.Address.Addr()),
		cmp.Compare(a.Address.Bits(), b.Address.Bits()),
	)
}
