package routing

import (
	"cmp"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/peering"
	"purelb.io/purelb/internal/rtnetlink"
)

// spot is where an address is.
type spot struct {
	link   int
	prefix netip.Prefix
}

// view is what is known of the links and addresses of the node, and what was
// told of that. It follows the kernel's messages one by one, so that one address
// among many costs no more than one.
type view struct {
	patterns []string
	links    map[int]link
	// held are the usable global addresses of all links.
	held map[spot]bool
	// told are the spots that are known to the listener, and the names that
	// their links had then.
	told map[spot]string
	// touched are the spots that may differ from what was told.
	touched map[spot]bool
	// stale says that everything has to be read again.
	stale bool
}

func newView(patterns []string) *view {
	return &view{
		patterns: patterns,
		links:    make(map[int]link),
		held:     make(map[spot]bool),
		told:     make(map[spot]string),
		touched:  make(map[spot]bool),
	}
}

// see takes what there is instead of all that was known.
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

// hear takes a message. One that it does not understand makes the view stale.
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
		v.remove(spot{a.link, a.prefix})
	}
}

// add also removes: an address may have been found to be somebody else's.
func (v *view) add(h holding) {
	s := spot{h.link, h.prefix}
	if !h.usable() || !h.global() {
		v.remove(s)
		return
	}
	if !v.held[s] {
		v.held[s], v.touched[s] = true, true
	}
}

func (v *view) remove(s spot) {
	if v.held[s] {
		delete(v.held, s)
		v.touched[s] = true
	}
}

func (v *view) hearLink(kind uint16, body []byte) {
	if len(body) > 0 && body[0] != unix.AF_UNSPEC {
		return // about a port of a bridge
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
	// IPv6 drops, keeps and checks addresses along with the state of a link, each
	// kernel in its own way.
	v.stale = v.stale || matches(v.patterns, before.name) || matches(v.patterns, after.name)
}

// imports says whether addresses of l are wanted.
func (v *view) imports(l link) bool { return l.up && matches(v.patterns, l.name) }

// settle returns the difference to what was told before, and takes it as told.
func (v *view) settle() (come, gone []peering.Imported) {
	for s := range v.touched {
		was, is := v.told[s], ""
		if l := v.links[s.link]; v.held[s] && v.imports(l) {
			is = l.name
		}
		if was == is {
			continue
		}
		if was != "" {
			gone = append(gone, peering.Imported{Address: s.prefix, Interface: was})
			delete(v.told, s)
		}
		if is != "" {
			come = append(come, peering.Imported{Address: s.prefix, Interface: is})
			v.told[s] = is
		}
	}
	clear(v.touched)
	slices.SortFunc(come, compareImported)
	slices.SortFunc(gone, compareImported)
	return come, gone
}

func compareImported(a, b peering.Imported) int {
	return cmp.Or(
		cmp.Compare(a.Interface, b.Interface),
		a.Address.Addr().Compare(b.Address.Addr()),
		cmp.Compare(a.Address.Bits(), b.Address.Bits()),
	)
}
