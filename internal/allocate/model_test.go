package allocate

import (
	"flag"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// model is an API server with Services, a cache that lags behind it, and allocations
// between the two. Writes fail in every possible way, and another controller writes the
// same statuses.
type model struct {
	t           *rapid.T
	allocations *allocations
	version     int
	// byDefault says that PureLB serves Services without a class.
	byDefault bool
	// live is the state of the API server, cached that of the cache.
	live, cached map[ipam.Owner]*corev1.Service
	// late are writes whose answer was lost, and that the API server may still perform.
	// unsettled are the Services with a failed write since the last successful one. Such writes may be
	// among the late ones.
	late      []write
	unsettled map[ipam.Owner]bool
	// busy are decisions whose write is running.
	busy map[ipam.Owner]write
	// queue are the Services that the loop must look at.
	queue map[ipam.Owner]bool
	// groups are the ServiceGroups. namespaces are the labels of the namespaces that have
	// Services.
	groups     []groups.Group
	namespaces map[string]map[string]string
	// keyed are the Services that have ever had a sharing key.
	keyed map[ipam.Owner]bool
	// given is what PureLB wrote last into the status of a Service. foreign is what another
	// controller wrote there since.
	given, foreign map[ipam.Owner][]netip.Addr
	// dismissed says whether everything that the Service has in the group of the box must go.
	dismissed map[ipam.Owner]bool
	// box is the backend of a group. blocked are addresses of nodes. boxed are the
	// addresses that each Service ever got from the backend.
	box     *box
	blocked map[netip.Addr]string
	boxed   map[ipam.Owner][]netip.Addr
	// backed says that this run tests the backend.
	backed bool
}

func newModel(t *rapid.T) *model {
	m := &model{
		t: t, byDefault: true, live: map[ipam.Owner]*corev1.Service{}, cached: map[ipam.Owner]*corev1.Service{},
		queue: map[ipam.Owner]bool{}, keyed: map[ipam.Owner]bool{}, given: map[ipam.Owner][]netip.Addr{}, foreign: map[ipam.Owner][]netip.Addr{},
		boxed: map[ipam.Owner][]netip.Addr{}, dismissed: map[ipam.Owner]bool{}, backed: rapid.Bool().Draw(t, "backed"),
	}
	m.box = newBox(m)
	m.someGroups()
	m.restart()
	return m
}

// restart starts another allocator. Before it reads the Services, it waits until late writes have
// arrived or never will. The cache stays.
func (m *model) restart() {
	for len(m.late) > 0 && rapid.Bool().Draw(m.t, "arrives") {
		m.arrive()
	}
	m.late, m.unsettled, m.busy = nil, map[ipam.Owner]bool{}, map[ipam.Owner]write{}
	m.queue = map[ipam.Owner]bool{}
	m.allocations = newAllocations(func(owners ...ipam.Owner) {
		for _, o := range owners {
			m.queue[o] = true
		}
	})
	m.allocations.poke = func(due ...ipam.Holder) { m.box.due = append(m.box.due, due...) }
	m.allocations.cluster.Claims.SetCluster(clusterName)
	m.box.restart()
	for _, g := range m.box.grants {
		g.lost = g.lost || m.keyed[ipam.OwnerOf(g.key)] || strings.Contains(g.key, "/shared:")
	}
	m.configure()
	var all []service.Request
	for who, svc := range m.live {
		if svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
			all = append(all, m.read(svc))
		} else {
			m.allocations.withhold(who, withheld(svc))
		}
		m.queue[who] = true // the cache lists every Service, and the watch of other Services finds leftovers
	}
	m.allocations.open(all)
	m.box.resume()
}

// configure gives the groups to the allocations and queues every Service.
func (m *model) configure() {
	m.allocations.change(m.state())
	for who := range m.cached {
		m.queue[who] = true
	}
}

// sync brings the cache up to date for one Service. The cache has only Services of type
// LoadBalancer.
func (m *model) sync(who ipam.Owner) {
	delete(m.cached, who)
	if svc, there := m.live[who]; there && svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
		m.cached[who] = svc
	}
	m.queue[who] = true
}

// look does what the loop does for one Service, without a pause.
func (m *model) look(who ipam.Owner, outcome string) {
	m.begin(who)
	m.finish(who, outcome)
}

// round looks at services in any order, each in its newest version.
func (m *model) round(services []ipam.Owner, outcome func() string) {
	for _, who := range rapid.Permutation(services).Draw(m.t, "order") {
		m.sync(who)
		m.look(who, outcome())
	}
}

// begin decides for a Service, as services.Reconcile does. The write comes later, and the
// loop looks at other Services in the meantime.
func (m *model) begin(who ipam.Owner) {
	if _, busy := m.busy[who]; busy {
		return
	}
	delete(m.queue, who)
	svc, there := m.cached[who]
	if !there {
		m.gone(who)
		return
	}
	if svc.DeletionTimestamp != nil && service.Bound(svc) {
		m.depart(who, svc)
		return
	}
	r, standing := m.allocations.identify(m.read(svc))
	if standing == replaced {
		if now, exists := m.live[who]; !exists || now.UID != r.UID {
			m.queue[who] = true
			return
		}
		m.forget(who, r.UID)
		r, standing = m.allocations.identify(r)
	}
	switch standing {
	case foreignService:
		m.leave(who, svc, r)
		return
	case formerlyForeign:
		if m.outdated(who, svc, r.Held) {
			return
		}
	}
	before := m.allocations.cluster.Store.Held(who)
	d, err := m.allocations.decide(r)
	must(m.t, err)
	m.fair(who, addr.Without(d.Result.Addresses, r.Held), before)
	m.checkGranted(who, addr.Without(d.Result.Addresses, r.Held))
	m.checkAdopted(r, d.Result.Addresses)
	if now := m.live[who]; now != nil && now.ResourceVersion == svc.ResourceVersion {
		m.checkStays(r, d.Result.Addresses)
	}
	// The cache may still have an earlier Service of the same name. That one gets its own
	// address again, which the rules may deny to the present Service.
	if now := m.live[who]; !m.unsettled[who] && now != nil && now.UID == svc.UID {
		m.lawful(r, addr.Without(addr.Without(d.Result.Addresses, r.Held), m.given[who]))
	}
	if d.bind || d.unbind {
		m.bind(who, svc, d.bind)
		return
	}
	if r.Owner == service.Contested {
		d.Result = contested(d.Result, "another")
	}
	m.busy[who] = write{who, svc, d.Result}
}

// gone handles a Service that the cache does not have.
func (m *model) gone(who ipam.Owner) {
	now, exists := m.live[who]
	if exists && now.Spec.Type == corev1.ServiceTypeLoadBalancer {
		m.queue[who] = true
		m.forget(who, now.UID)
		return
	}
	if exists && service.Bound(now) {
		if len(service.Emptied(now)) == 0 {
			m.allocations.withhold(who, nil)
		}
		m.depart(who, now)
		return
	}
	if exists {
		m.release(who, now)
		if m.unsettled[who] {
			return
		}
	}
	m.allocations.withhold(who, nil)
	m.forget(who, "")
}

// depart handles a Service with the finalizer that is being deleted, or has become of another type.
func (m *model) depart(who ipam.Owner, svc *corev1.Service) {
	r := m.read(svc)
	patch, err := departurePatch(svc, r, time.Unix(0, 0))
	must(m.t, err)
	if patch == nil && !m.allocations.of(who).departs {
		m.dismissed[who] = m.allocations.departing(r)["box"] != ""
	}
	switch {
	case patch != nil:
		m.apply(who, svc, patch)
		m.queue[who] = true
	case len(m.allocations.depart(r)) == 0 && m.bind(who, svc, false) && svc.Spec.Type != corev1.ServiceTypeLoadBalancer:
		m.forget(who, "")
	}
}

// bind adds the finalizer to a Service, or removes it. It reports whether it did.
func (m *model) bind(who ipam.Owner, svc *corev1.Service, add bool) bool {
	patch, err := service.BindPatch(svc, add)
	must(m.t, err)
	done := m.apply(who, svc, patch)
	if !done {
		m.queue[who] = true
	} else if !add {
		m.checkUnbound(svc)
	}
	return done
}

// read reads a Service as this allocator does.
func (m *model) read(svc *corev1.Service) service.Request {
	return service.Rules{ByDefault: m.byDefault}.Read(svc)
}

// leave handles a Service of another controller.
func (m *model) leave(who ipam.Owner, svc *corev1.Service, r service.Request) {
	if m.outdated(who, svc, r.Held) {
		return
	}
	m.allocations.note(r)
	m.release(who, svc)
}

// release removes our annotations and our condition from a Service.
func (m *model) release(who ipam.Owner, svc *corev1.Service) {
	patch, err := service.ReleasePatch(svc)
	must(m.t, err)
	if patch != nil {
		m.unsettled[who] = !m.apply(who, svc, patch)
	}
	if m.unsettled[who] {
		m.queue[who] = true
	}
}

// outdated reports whether something besides addresses is held for a Service, and svc is not
// the newest version or may still change.
func (m *model) outdated(who ipam.Owner, svc *corev1.Service, addresses []netip.Addr) bool {
	now, exists := m.live[who]
	outdated := m.allocations.holdsMore(who, addresses) && (!exists || now.ResourceVersion != svc.ResourceVersion || m.unsettled[who])
	if outdated {
		m.queue[who] = true
	}
	return outdated
}

func (m *model) forget(who ipam.Owner, remaining types.UID) {
	if !m.allocations.forget(who, remaining) {
		return
	}
	delete(m.unsettled, who)
}

// fair fails if fresh has an address that other Services have and that this Service may not share
// with them. before are the addresses that the Service held before.
func (m *model) fair(who ipam.Owner, fresh, before []netip.Addr) {
	for _, c := range m.allocations.cluster.Store.Collisions(who) {
		if slices.Contains(fresh, c.Addr) {
			m.t.Fatalf("%s gets %s, where %v", who, c.Addr, c)
		}
	}
	for _, a := range addr.Without(fresh, before) {
		if others := slices.DeleteFunc(m.allocations.cluster.Store.Contenders(a), func(other ipam.Owner) bool { return other == who }); len(others) > 0 {
			m.t.Fatalf("%s gets %s, which %s show", who, a, others)
		}
	}
	if slices.Contains(fresh, netip.MustParseAddr(foreignOnly)) {
		m.t.Fatalf("%s gets %s, which another controller gave the Service once", who, foreignOnly)
	}
}

func TestNoFailureLosesOrDoublesAnAddress(t *testing.T) { runModel(t, failAtAnyStep) }

// runModel runs a model for a few seconds, half of them with the same random numbers each time. make soak
// runs it for longer, from a seed that it chooses.
func runModel(t *testing.T, model func(*rapid.T)) {
	if chosen := flag.Lookup("rapid.seed"); chosen.Value.String() != chosen.DefValue {
		rapid.Check(t, model)
		return
	}
	for _, seed := range []string{"1", "0"} { // 0 stands for any
		t.Run("seed "+seed, func(t *testing.T) {
			for name, value := range map[string]string{"rapid.seed": seed, "rapid.checks": "1000"} {
				f := flag.Lookup(name)
				before := f.Value.String()
				defer func() { _ = f.Value.Set(before) }()
				must(t, f.Value.Set(value))
			}
			rapid.Check(t, model)
		})
	}
}

// failAtAnyStep runs the model with random steps.
func failAtAnyStep(t *rapid.T) {
	m := newModel(t)
	steps := map[string]func(*rapid.T){
		"": func(*rapid.T) {
			m.check()
			m.checkBackend()
		},
		"create":    func(*rapid.T) { m.create(m.anyone()) },
		"edit":      func(*rapid.T) { m.change(m.anyone(), m.want) },
		"retype":    func(*rapid.T) { m.retype(m.anyone()) },
		"interfere": func(*rapid.T) { m.interfere(m.anyone()) },
		"strip":     func(*rapid.T) { m.strip(m.anyone()) },
		"invite":    func(*rapid.T) { m.invite(m.anyone()) },
		"remove":    func(*rapid.T) { m.remove(m.anyone()) },
		"anew": func(*rapid.T) {
			who := m.anyone()
			m.remove(who)
			m.create(who)
		},
		"sync":    func(*rapid.T) { m.sync(m.anyone()) },
		"arrive":  func(*rapid.T) { m.arrive() },
		"age":     func(*rapid.T) { m.age(m.anyone()) },
		"restart": func(*rapid.T) { m.restart() },
		"announcer": func(t *rapid.T) {
			m.byDefault = rapid.Bool().Draw(t, "default announcer")
			m.restart()
		},
		"pools": func(*rapid.T) {
			m.someGroups()
			m.configure()
		},
		"begin": func(*rapid.T) { m.begin(m.anyone()) },
		"finish": func(t *rapid.T) {
			m.finish(m.anyone(), rapid.SampledFrom([]string{"well", "well", "lost", "late", "done"}).Draw(t, "outcome"))
		},
		"quiet": func(*rapid.T) {
			m.quiet()
			m.checkQuiet()
		},
	}
	if m.backed {
		maps.Copy(steps, m.boxSteps())
	}
	t.Repeat(steps)
}
