package allocate

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/service"
)

// judged returns r as the allocations see it.
func (l *allocations) judged(r service.Request) service.Request {
	return census.Judged(l.cluster, r, l.isKnown(owner(r)) && l.of(owner(r)).foreign == "")
}

// quiet delivers and handles everything until nothing changes.
func (m *model) quiet() {
	for who := range maps.Clone(m.busy) {
		m.finish(who, "well")
	}
	for len(m.late) > 0 {
		m.arrive()
	}
	clear(m.unsettled)
	for range 100 {
		m.syncAll()
		if len(m.queue) == 0 {
			return
		}
		for _, who := range slices.Sorted(maps.Keys(m.queue)) {
			m.look(who, "well")
		}
	}
	m.t.Fatal("the model does not come to rest")
}

// syncAll brings the cache up to date.
func (m *model) syncAll() {
	for who, svc := range maps.Clone(m.cached) {
		if now, there := m.live[who]; !there || now.ResourceVersion != svc.ResourceVersion {
			m.sync(who)
		}
	}
	for who, svc := range m.live {
		if _, there := m.cached[who]; !there && svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
			m.sync(who)
		}
	}
}

// check checks the rules that hold at any time. Agents announce only the addresses that PureLB
// wrote last, and no address for two Services that do not share it.
func (m *model) check() {
	book, holders := m.allocations.cluster.Store, map[netip.Addr]ipam.Owner{}
	for who, svc := range m.live {
		announced, _ := announce.Read(svc)
		for _, a := range announced.Addresses {
			if !slices.Contains(m.given[who], a) {
				m.t.Fatalf("agents announce %s for %s, but PureLB gave the Service %s", a, who, m.given[who])
			}
			if slices.Contains(m.foreign[who], a) {
				continue // another controller gave the Service an address that PureLB had given it before
			}
			if other, taken := holders[a]; taken && (!m.keyed[who] || !m.keyed[other]) {
				m.t.Fatalf("%s and %s both have %s", other, who, a)
			}
			holders[a] = who
			r := m.allocations.judged(m.read(svc))
			_, withheld := book.Lister(a, "") // by this Service, or by one that shared it
			if r.Owner != service.Anothers && !slices.Contains(book.Holders(a), who) && !slices.Contains(book.Contenders(a), who) && !withheld {
				m.t.Fatalf("%s has %s, which the store has for %q", who, a, book.Holders(a))
			}
		}
	}
}

// checkQuiet checks the rules that hold once nothing changes.
func (m *model) checkQuiet() {
	used := map[netip.Addr]bool{}
	for who, svc := range m.live {
		switch {
		case svc.DeletionTimestamp != nil:
			continue
		case svc.Spec.Type != corev1.ServiceTypeLoadBalancer:
			m.checkReleased(who, svc)
			continue
		}
		r := m.allocations.judged(m.read(svc))
		m.checkBooked(who, r)
		if r.Owner == service.Anothers {
			m.checkReleased(who, svc)
		} else {
			m.checkServed(who, svc, r)
			m.checkNamed(r)
		}
		for _, a := range r.Held {
			used[a] = true
		}
	}
	m.checkUsage(used)
}

// checkBooked fails if the store holds other addresses for a Service than the Service shows.
func (m *model) checkBooked(who ipam.Owner, r service.Request) {
	booked := m.allocations.cluster.Store.Shown(who)
	slices.SortFunc(booked, netip.Addr.Compare)
	if !slices.Equal(booked, slices.SortedFunc(slices.Values(r.Held), netip.Addr.Compare)) {
		m.t.Fatalf("%s, which is %s, has %s, and the store has %s for it", who, r.Owner, r.Held, booked)
	}
}

// checkServed fails if a new choice would give a Service of ours other addresses than it has.
func (m *model) checkServed(who ipam.Owner, svc *corev1.Service, r service.Request) {
	choice := m.allocations.choose(r)
	said := meta.FindStatusCondition(svc.Status.Conditions, service.ConditionAllocated)
	if said == nil {
		said = &metav1.Condition{}
	}
	// The reason why a Service lacks an address may change without a better outcome.
	if now := choice.Result; len(r.Strange) > 0 || !slices.Equal(now.Addresses, r.Held) || now.Reevaluated ||
		(now.Reason == ipam.ReasonAllocated) != (said.Reason == ipam.ReasonAllocated) {
		m.t.Fatalf("%s has %s beside %s, %s: %s\nand could have %s, %s: %s", who, r.Held, r.Strange, said.Reason, said.Message,
			now.Addresses, now.Reason, now.Message)
	}
}

// checkReleased fails if a Service that is not ours still has data of PureLB.
func (m *model) checkReleased(who ipam.Owner, svc *corev1.Service) {
	for name := range svc.Annotations {
		if strings.HasPrefix(name, "purelb.io/allocated-") || name == service.AnnotationPoolType {
			m.t.Fatalf("%s is not ours, and still has the annotation %s", who, name)
		}
	}
	if len(svc.Status.Conditions) > 0 {
		m.t.Fatalf("%s is not ours, and still has the condition %v", who, svc.Status.Conditions)
	}
}

// checkUsage fails if an address that no Service has counts as in use.
func (m *model) checkUsage(used map[netip.Addr]bool) {
	for _, u := range m.allocations.usages(nil) {
		if u.group.Backend != "" {
			continue // A granted address counts before a Service shows it.
		}
		var n int64
		for a := range used {
			if _, in := u.group.PoolOf(a); in {
				n++
			}
		}
		if u.total() != n {
			m.t.Fatalf("%d addresses of %s are in use, and the store has %d", n, u.group.Name, u.total())
		}
	}
}

// checkAdopted fails if a Service that PureLB adopts loses an address of a family that it wants.
func (m *model) checkAdopted(r service.Request, now []netip.Addr) {
	if r.Owner != service.Adopted || !r.Adopt || r.Reevaluate {
		return
	}
	for _, ip := range addr.Without(r.Held, now) {
		f := addr.FamilyOf(ip)
		if r.Wants(f) && !slices.ContainsFunc(r.Asked, func(a netip.Addr) bool { return addr.FamilyOf(a) == f }) {
			m.t.Fatalf("%s shows %s and is adopted, but loses %s and gets %s", r.Key(), r.Held, ip, now)
		}
	}
}
