package ipam

import (
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/service"
)

// Owner is a Service that may hold addresses, as "namespace/name".
type Owner string

// Namespace is that of the Service.
func (o Owner) Namespace() string {
	namespace, _, _ := strings.Cut(string(o), "/")
	return namespace
}

// Terms are the conditions under which an owner holds addresses.
type Terms struct {
	// Key is the sharing key. Owners share an address only if they have the same
	// key. An owner without a key wants addresses of its own.
	Key string
	// Selector says which pods serve the owner. It is "" if that is not known.
	Selector string
	// Local says that the owner relies on the other owners of its addresses to select the
	// same pods: see Alike.
	Local bool
	// Foreign says that the owner is a Service of another controller, which gave it the
	// addresses.
	Foreign bool
	// Dying says why the owner is still there although it is being deleted, or "".
	Dying string
	// Ports are the ports that no other owner may have on the same address.
	Ports []service.Port
}

// TermsOf returns the terms under which the Service of r holds addresses.
func TermsOf(r service.Request) Terms {
	if r.Owner == service.Anothers {
		return Terms{Foreign: true}
	}
	return Terms{Key: r.SharingKey, Selector: r.Selector, Local: r.SharingKey != "" && r.LocalPolicy && r.AllowLocal, Dying: r.Dying, Ports: r.Ports}
}

// equal reports whether t and o have the same fields, with the ports in the same
// order.
func (t Terms) equal(o Terms) bool {
	return t.Key == o.Key && t.Selector == o.Selector && t.Local == o.Local && t.Foreign == o.Foreign && t.Dying == o.Dying && slices.Equal(t.Ports, o.Ports)
}

// tidy returns t with a sorted copy of its ports, in which each port occurs once.
func (t Terms) tidy() Terms {
	t.Ports = slices.Compact(slices.SortedFunc(slices.Values(t.Ports), service.Port.Compare))
	return t
}

// Store says which owner holds which address, and under which terms. It knows no pools: an owner
// keeps an address after its pool is removed.
//
// The Store keeps the terms of an owner once, however many addresses the owner holds.
// They are in effect on each address that it holds alone. What is in effect on a shared
// address is kept with the address: see holding.
//
// A change takes one step for each range about which somebody asked, and one for each port of the
// owner. A question takes one step, whatever the size of the pool, and the first one about a range
// one for each held address. A Store is not safe for concurrent use: its user must lock.
type Store struct {
	holdings map[netip.Addr]*holding
	// held are the addresses of each owner, sorted.
	held map[Owner][]netip.Addr
	// contenders are the owners that show an address and do not hold it, in order of
	// arrival: see Show. contended are these addresses of each owner, sorted.
	contenders map[netip.Addr][]Owner
	contended  map[Owner][]netip.Addr
	// terms are the terms of each owner, tidy. An owner with zero terms has no entry.
	terms map[Owner]Terms

	// shared are the addresses on which each key is in effect, sorted.
	shared map[string][]netip.Addr
	// spans count the addresses in use of the ranges about which somebody asked.
	spans map[addr.Range]*span
	// blocked are single addresses that are not handed out, with the reason.
	blocked map[netip.Addr]string
	// networks are ranges that are not handed out. The spans do not have their addresses.
	networks networks
	// listed are the addresses that each owner has in spec.externalIPs: see List. listers are the
	// owners that list an address, in order of arrival.
	listed  map[Owner][]netip.Addr
	listers map[netip.Addr][]Owner
	// vacated are free addresses that other Services get last: see Vacate. vacancies have them in the
	// order of time, and others that are vacated no longer.
	vacated   map[netip.Addr]vacancy
	vacancies []vacancy
	// touched and concerned are what Touched returns next.
	touched   []netip.Addr
	concerned []Owner
}

// NewStore returns a Store in which no address is held.
func NewStore() *Store {
	return &Store{
		holdings:   map[netip.Addr]*holding{},
		held:       map[Owner][]netip.Addr{},
		contenders: map[netip.Addr][]Owner{},
		contended:  map[Owner][]netip.Addr{},
		terms:      map[Owner]Terms{},
		shared:     map[string][]netip.Addr{},
		spans:      map[addr.Range]*span{},
		blocked:    map[netip.Addr]string{},
		listed:     map[Owner][]netip.Addr{},
		listers:    map[netip.Addr][]Owner{},
		vacated:    map[netip.Addr]vacancy{},
	}
}

// Touch notes that something about a has changed, which these owners must know because their
// conditions mention it. Every other change of the Store touches the addresses that it is about.
func (s *Store) Touch(a netip.Addr, concerned ...Owner) {
	s.touched = append(s.touched, plain(a))
	s.concerned = append(s.concerned, concerned...)
}

// Touched returns the addresses that were touched since the last call, and the owners concerned.
func (s *Store) Touched() (addresses []netip.Addr, concerned []Owner) {
	addresses, concerned = s.touched, s.concerned
	s.touched, s.concerned = nil, nil
	return addresses, concerned
}

// Holder returns the owner that holds a. If there are several, it is the first.
func (s *Store) Holder(a netip.Addr) (Owner, bool) {
	first, _, held := s.Use(a)
	return first, held
}

// Holders returns all owners that hold a, in the order in which they came.
func (s *Store) Holders(a netip.Addr) []Owner {
	h := s.holdings[plain(a)]
	if h == nil {
		return nil
	}
	return slices.Clone(h.owners)
}

// Held returns the addresses of which by is an owner, sorted.
func (s *Store) Held(by Owner) []netip.Addr { return slices.Clone(s.held[by]) }

// Shared returns the addresses of family f on which key is in effect and whose first owner is of
// namespace, sorted. The namespace "" means all namespaces. For the key "" the result is empty.
func (s *Store) Shared(key, namespace string, f addr.Family) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(s.shared[key]), func(a netip.Addr) bool {
		return addr.FamilyOf(a) != f || namespace != "" && s.holdings[a].owners[0].Namespace() != namespace
	})
}

// Alike reports whether all other owners of a select the same pods as by: they have its
// namespace and its selector.
func (s *Store) Alike(a netip.Addr, by Owner) bool {
	selector := s.terms[by].Selector
	for _, o := range s.Holders(a) {
		if o != by && (selector == "" || s.terms[o].Selector != selector || o.Namespace() != by.Namespace()) {
			return false
		}
	}
	return true
}

// Locals returns the owners of a, except by, that rely on the other owners to select the
// same pods.
func (s *Store) Locals(a netip.Addr, by Owner) []Owner {
	return slices.DeleteFunc(s.Holders(a), func(o Owner) bool { return o == by || !s.terms[o].Local })
}

// Terms returns the last terms that Grant recorded for by, with the ports sorted. It is for reading
// only.
func (s *Store) Terms(by Owner) Terms { return s.terms[by] }

// Grant sets the terms under which by owns its addresses, now and later.
//
// On a shared address, the other owners limit which terms take effect. An owner that had a port
// first keeps it. When it gives the port up, the next owner that wants the port gets it. The key of
// an address changes only when all of its owners want the same new key, so the key of a single
// owner always changes. Collisions returns the terms that are not in effect.
func (s *Store) Grant(by Owner, want Terms) {
	had := s.terms[by]
	if had.equal(want) {
		return
	}
	if want = want.tidy(); had.equal(want) {
		return
	}
	if want.equal(Terms{}) {
		delete(s.terms, by)
	} else {
		s.terms[by] = want
	}
	for _, a := range s.contended[by] {
		s.concerned = append(s.concerned, s.Holders(a)...) // their conditions say whose by is
	}
	for _, a := range s.held[by] {
		s.apply(a, s.holdings[a], by, want.Ports)
		s.Touch(a, append(s.Locals(a, by), s.contenders[a]...)...)
	}
}

// plain returns a in the form that the Store uses.
func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }
