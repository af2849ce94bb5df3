package allocator

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// model is an API server with Services, a cache of it that lags behind, and allocations
// that work between the two. Writes fail in every possible way, and another controller
// writes the same statuses.
type model struct {
	t           *rapid.T
	allocations *allocations
	version     int
	// byDefault says that PureLB serves Services without a class.
	byDefault bool
	// live is what the API server has, cached what the cache has of it.
	live, cached map[ipam.Owner]*corev1.Service
	// late are writes whose answer was lost and that the API server may still do. doubts are
	// the versions that such writes are for.
	late   []write
	doubts map[ipam.Owner]string
	// busy are decisions that are being written.
	busy map[ipam.Owner]write
	// queue are the Services that the loop is to look at.
	queue map[ipam.Owner]bool
	// groups are the ServiceGroups, and namespaces the labels of the namespaces that have
	// Services.
	groups     []ipam.Group
	namespaces map[string]map[string]string
	// keyed are the Services that have ever had a sharing key.
	keyed map[ipam.Owner]bool
	// given is what PureLB wrote last into the status of a Service, and foreign what
	// another controller wrote there since.
	given, foreign map[ipam.Owner][]netip.Addr
	// box is the backend of a group, blocked are addresses of nodes, and boxed those that
	// each Service ever got from the backend.
	box     *box
	blocked map[netip.Addr]string
	boxed   map[ipam.Owner][]netip.Addr
	// backed says that this run is about the backend.
	backed bool
}

// write gives a version of a Service what was decided.
type write struct {
	who    ipam.Owner
	svc    *corev1.Service
	result service.Result
}

func newModel(t *rapid.T) *model {
	m := &model{
		t: t, byDefault: true, live: map[ipam.Owner]*corev1.Service{}, cached: map[ipam.Owner]*corev1.Service{},
		queue: map[ipam.Owner]bool{}, keyed: map[ipam.Owner]bool{}, given: map[ipam.Owner][]netip.Addr{}, foreign: map[ipam.Owner][]netip.Addr{},
		boxed: map[ipam.Owner][]netip.Addr{}, backed: rapid.Bool().Draw(t, "backed"),
	}
	m.box = newBox(m)
	m.someGroups()
	m.restart()
	return m
}

// restart starts another allocator. The cache stays as it is.
func (m *model) restart() {
	m.late, m.doubts, m.busy = nil, map[ipam.Owner]string{}, map[ipam.Owner]write{}
	m.queue = map[ipam.Owner]bool{}
	m.allocations = newAllocations(func(owners ...ipam.Owner) {
		for _, o := range owners {
			m.queue[o] = true
		}
	})
	m.allocations.cluster.Claims.SetCluster(clusterName)
	m.box.restart()
	m.configure()
	var all []service.Request
	for who, svc := range m.live {
		if svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
			all = append(all, service.Read(svc, m.byDefault))
		}
		m.queue[who] = true // the cache tells of all, and the sweep finds leftovers
	}
	m.allocations.open(all)
}

// configure tells the allocations of the groups, and has every Service looked at.
func (m *model) configure() {
	m.allocations.change(m.state())
	for who := range m.cached {
		m.queue[who] = true
	}
}

func (m *model) anyone() ipam.Owner {
	names := []string{"red/a", "red/b", "blue/a", "red/c", "red/d", "blue/b"}
	if m.backed {
		names = names[:3]
	}
	return ipam.Owner(rapid.SampledFrom(names).Draw(m.t, "service"))
}

// put makes a new version of a Service.
func (m *model) put(who ipam.Owner, svc *corev1.Service) {
	m.version++
	svc.ResourceVersion = strconv.Itoa(m.version)
	m.live[who] = svc
	m.keyed[who] = m.keyed[who] || svc.Annotations[service.AnnotationSharing] != ""
}

// change makes a new version of a Service, if there is one.
func (m *model) change(who ipam.Owner, change func(*corev1.Service)) {
	if svc, there := m.live[who]; there {
		svc = svc.DeepCopy()
		change(svc)
		m.put(who, svc)
	}
}

func (m *model) create(who ipam.Owner) {
	if _, there := m.live[who]; there {
		return
	}
	created := metav1.Unix(int64(m.version), 0)
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: who.Namespace(), Name: string(who[len(who.Namespace())+1:]), CreationTimestamp: created,
		UID: types.UID(fmt.Sprint(m.version)), Annotations: map[string]string{},
	}}
	svc.Spec.ClusterIP = "10.96.0.1"
	delete(m.given, who)
	m.balance(svc)
	m.want(svc)
	m.put(who, svc)
}

// balance makes svc one of type LoadBalancer, of any class.
func (m *model) balance(svc *corev1.Service) {
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	if class := rapid.SampledFrom([]string{"", "", "", service.ClassV2, "example.com/lb"}).Draw(m.t, "class"); class != "" {
		svc.Spec.LoadBalancerClass = &class
	}
}

// retype changes the type of a Service, as the API server does it: with another type
// it has no class, and no load balancer.
func (m *model) retype(who ipam.Owner) {
	m.change(who, func(svc *corev1.Service) {
		if svc.Spec.Type == corev1.ServiceTypeClusterIP {
			m.balance(svc)
			return
		}
		svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeClusterIP, nil
		svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	})
}

// want makes svc ask for anything.
func (m *model) want(svc *corev1.Service) {
	t := m.t
	dual := []corev1.IPFamily{"IPv4", "IPv6"}
	switch policy := rapid.SampledFrom([]corev1.IPFamilyPolicy{"SingleStack", "RequireDualStack", "PreferDualStack"}).Draw(t, "policy"); policy {
	case "SingleStack":
		one := rapid.IntRange(0, 1).Draw(t, "family")
		svc.Spec.IPFamilyPolicy, svc.Spec.IPFamilies = &policy, dual[one:one+1]
	default:
		svc.Spec.IPFamilyPolicy, svc.Spec.IPFamilies = &policy, dual
	}
	annotate := func(name string, values ...string) {
		delete(svc.Annotations, name)
		if value := rapid.SampledFrom(values).Draw(t, name); value != "" {
			svc.Annotations[name] = value
		}
	}
	groups := []string{"", "", "", "default", "second", "second", "cloud", "cloud", "team/second", "other/second", "nowhere"}
	addresses := []string{"", "", "", "192.0.2.1", "192.0.2.2", "192.0.2.2,2001:db8::1", "198.51.100.1", "172.31.1.0", "10.0.0.1"}
	if m.backed {
		groups, addresses = []string{"", "default", "second", "box", "box", "box", "box", "box"}, []string{"", "", "", "", "100.64.0.1", "192.0.2.2", "100.64.0.2,2001:db8:64::1"}
	}
	annotate(service.AnnotationGroup, groups...)
	annotate(service.AnnotationSharing, "", "", "key", "key", "other")
	annotate(service.AnnotationAddresses, addresses...)
	annotate(service.AnnotationMultiPool, "", "", "", "", "", "", "false", "true")
	annotate(service.AnnotationReevaluate, "", "", "", "", "", "true")
	svc.Labels = rapid.SampledFrom([]map[string]string{nil, {"tier": "gold"}}).Draw(t, "labels")
	svc.Spec.Ports = rapid.SampledFrom([][]corev1.ServicePort{{{Port: 80}}, {{Protocol: "UDP", Port: 80}}, {{Port: 80}, {Port: 443}}}).Draw(t, "ports")
}

// foreignOnly is an address that is in no group.
const foreignOnly = "10.9.9.9"

// meddle is another controller, which writes the status of a Service as it likes.
func (m *model) meddle(who ipam.Owner) {
	m.change(who, func(svc *corev1.Service) {
		if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
			return
		}
		before, present := service.Ingress(svc), svc.Status.LoadBalancer.Ingress
		ip := rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.3", "2001:db8::2", "198.51.100.1", "100.64.0.1", foreignOnly}).Draw(m.t, "ip")
		switch rapid.SampledFrom([]string{"clear", "replace", "add", "name", "ports"}).Draw(m.t, "meddle") {
		case "clear":
			present = nil
		case "replace":
			present = []corev1.LoadBalancerIngress{{IP: ip}}
		case "add":
			present = append(present, corev1.LoadBalancerIngress{IP: ip})
		case "name":
			present = append(present, corev1.LoadBalancerIngress{Hostname: "lb.example.com"})
		case "ports":
			for i := range present {
				present[i].Ports = []corev1.PortStatus{{Port: 80, Protocol: "TCP"}}
			}
		}
		svc.Status.LoadBalancer.Ingress = present
		if a := netip.MustParseAddr(ip); slices.Contains(service.Ingress(svc), a) && !slices.Contains(before, a) {
			m.foreign[who] = append(m.foreign[who], a)
		}
	})
}

// strip takes some of our annotations off a Service, as a tool does that keeps a
// manifest as it is.
func (m *model) strip(who ipam.Owner) {
	m.change(who, func(svc *corev1.Service) {
		for _, name := range []string{service.AnnotationAllocatedBy, service.AnnotationAllocatedAddresses, service.AnnotationAllocatedFrom, service.AnnotationPoolType} {
			if rapid.Bool().Draw(m.t, name) {
				delete(svc.Annotations, name)
			}
		}
	})
}

func (m *model) remove(who ipam.Owner) { delete(m.live, who) }

// sync brings the cache up to date, for one Service. It has only those of type
// LoadBalancer.
func (m *model) sync(who ipam.Owner) {
	delete(m.cached, who)
	if svc, there := m.live[who]; there && svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
		m.cached[who] = svc
	}
	m.queue[who] = true
}

// look is what the loop does for one Service, without a pause.
func (m *model) look(who ipam.Owner, outcome string) {
	m.begin(who)
	m.finish(who, outcome)
}

// begin decides for a Service, as services.Reconcile does. The write is done later:
// meanwhile others are looked at.
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
	r, standing := m.allocations.identify(service.Read(svc, m.byDefault))
	if standing == replaced {
		if now, exists := m.live[who]; !exists || now.UID != r.UID {
			m.queue[who] = true
			return
		}
		m.forget(who, r.UID)
		r, standing = m.allocations.identify(r)
	}
	switch standing {
	case another:
		m.leave(who, svc, r)
		return
	case formerlyAnother:
		if m.outdated(who, svc, nil) {
			return
		}
		m.allocations.takeOver(who)
		r, _ = m.allocations.identify(r)
	}
	before := m.allocations.cluster.Store.Held(who)
	d, err := m.allocations.decide(r)
	if err != nil {
		m.t.Fatal(err)
	}
	m.fair(who, without(d.Result.Addresses, r.Held), before)
	m.checkGranted(who, without(d.Result.Addresses, r.Held))
	if now := m.live[who]; standing == ours && now != nil && now.ResourceVersion == svc.ResourceVersion {
		m.checkStays(r, d.Result.Addresses)
	}
	// The cache may still have an earlier Service of the same name. That one gets its own
	// address again, which the rules may deny to the present Service.
	if now := m.live[who]; m.doubts[who] == "" && now != nil && now.UID == svc.UID {
		m.lawful(r, without(without(d.Result.Addresses, r.Held), m.given[who]))
	}
	if r.Owner == service.Contested {
		d.Result = contested(d.Result, "another")
	}
	m.busy[who] = write{who, svc, d.Result}
}

// gone is for a Service that the cache does not have.
func (m *model) gone(who ipam.Owner) {
	now, exists := m.live[who]
	if exists && now.Spec.Type == corev1.ServiceTypeLoadBalancer {
		m.queue[who] = true
		m.forget(who, now.UID)
		return
	}
	m.forget(who, "")
	if exists {
		m.release(who, now)
	}
}

// leave is for a Service that is another controller's.
func (m *model) leave(who ipam.Owner, svc *corev1.Service, r service.Request) {
	if m.outdated(who, svc, r.Held) {
		return
	}
	m.allocations.note(r)
	m.release(who, svc)
}

// release takes our annotations and condition off a Service.
func (m *model) release(who ipam.Owner, svc *corev1.Service) {
	patch, err := service.ReleasePatch(svc)
	if err != nil {
		m.t.Fatal(err)
	}
	if patch != nil && !m.apply(who, svc, patch) {
		m.queue[who] = true
	}
	delete(m.doubts, who)
}

// outdated reports whether something is held for a Service beside addresses, and
// svc is not its newest version.
func (m *model) outdated(who ipam.Owner, svc *corev1.Service, addresses []netip.Addr) bool {
	now, exists := m.live[who]
	outdated := m.allocations.holdsMore(who, addresses) && (!exists || now.ResourceVersion != svc.ResourceVersion)
	if outdated {
		m.queue[who] = true
	}
	return outdated
}

func (m *model) forget(who ipam.Owner, remaining types.UID) {
	if !m.allocations.forget(who, remaining) {
		return
	}
	delete(m.doubts, who)
}

// fair fails if a Service gets fresh addresses that others have and that it may
// not share with them, before being those that were held for it.
func (m *model) fair(who ipam.Owner, fresh, before []netip.Addr) {
	for _, c := range m.allocations.cluster.Store.Collisions(who) {
		if slices.Contains(fresh, c.Addr) {
			m.t.Fatalf("%s gets %s, where %v", who, c.Addr, c)
		}
	}
	for _, a := range without(fresh, before) {
		if others := without(m.allocations.cluster.Store.Contenders(a), []ipam.Owner{who}); len(others) > 0 {
			m.t.Fatalf("%s gets %s, which %s show", who, a, others)
		}
	}
	if slices.Contains(fresh, netip.MustParseAddr(foreignOnly)) {
		m.t.Fatalf("%s gets %s, which another controller gave it once", who, foreignOnly)
	}
}

// finish writes what was decided for a Service.
func (m *model) finish(who ipam.Owner, outcome string) {
	w, busy := m.busy[who]
	if !busy {
		return
	}
	delete(m.busy, who)
	if m.patch(w) == nil {
		if m.doubts[who] != w.svc.ResourceVersion {
			if !m.outdated(who, w.svc, w.result.Addresses) {
				m.allocations.settle(who, w.result.Addresses)
			}
			return
		}
		w.result.Allocated, w.result.Reason = false, reasonPending
		w.result.Message = w.result.Having("again")
	}
	switch outcome {
	case "lost", "late", "done":
		m.queue[who] = true
		m.doubts[who] = w.svc.ResourceVersion
		if outcome == "late" {
			m.late = append(m.late, w)
		}
		if outcome == "done" {
			m.write(w)
		}
	default:
		if m.write(w) {
			m.allocations.settle(who, w.result.Addresses)
		}
	}
}

// patch is what w writes, nil if there is nothing to write.
func (m *model) patch(w write) []byte {
	patch, err := w.result.Patch(w.svc, time.Unix(0, 0))
	if err != nil {
		m.t.Fatal(err)
	}
	return patch
}

// write does a write, unless the Service has changed since.
func (m *model) write(w write) bool {
	patch := m.patch(w)
	if patch == nil || !m.apply(w.who, w.svc, patch) {
		return false
	}
	m.given[w.who] = w.result.Addresses
	// A Service keeps what another controller gave it and what a Service of ours holds.
	contended := m.allocations.cluster.Store.Contended(w.who)
	m.foreign[w.who] = without(m.foreign[w.who], without(m.foreign[w.who], contended))
	return true
}

// apply applies a patch for svc, unless the Service has changed since.
func (m *model) apply(who ipam.Owner, svc *corev1.Service, patch []byte) bool {
	if now, there := m.live[who]; !there || now.ResourceVersion != svc.ResourceVersion || now.UID != svc.UID {
		return false
	}
	before, err := json.Marshal(svc)
	if err != nil {
		m.t.Fatal(err)
	}
	text, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		m.t.Fatal(err)
	}
	after := &corev1.Service{}
	if err := json.Unmarshal(text, after); err != nil {
		m.t.Fatal(err)
	}
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	m.put(who, after)
	return true
}

// arrive does the oldest of the late writes.
func (m *model) arrive() {
	if len(m.late) > 0 {
		m.write(m.late[0])
		m.late = m.late[1:]
	}
}

// quiet lets everything arrive and be looked at until nothing changes.
func (m *model) quiet() {
	for who := range maps.Clone(m.busy) {
		m.finish(who, "well")
	}
	for len(m.late) > 0 {
		m.arrive()
	}
	for range 100 {
		m.syncAll()
		if len(m.queue) == 0 {
			return
		}
		for _, who := range slices.Sorted(maps.Keys(m.queue)) {
			m.look(who, "well")
		}
	}
	m.t.Fatal("it does not come to rest")
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

// check is what must be true at any time. Agents announce nothing but what PureLB
// wrote last, and no address for two Services that do not share it.
func (m *model) check() {
	book, holders := m.allocations.cluster.Store, map[netip.Addr]ipam.Owner{}
	for who, svc := range m.live {
		announced, _ := announce.Read(svc)
		for _, a := range announced.Addresses {
			if !slices.Contains(m.given[who], a) {
				m.t.Fatalf("agents announce %s for %s, and PureLB gave it %s", a, who, m.given[who])
			}
			if slices.Contains(m.foreign[who], a) {
				continue // another controller gave it what PureLB had given it before
			}
			if other, taken := holders[a]; taken && (!m.keyed[who] || !m.keyed[other]) {
				m.t.Fatalf("%s and %s both have %s", other, who, a)
			}
			holders[a] = who
			r := m.allocations.judged(service.Read(svc, m.byDefault))
			if r.Owner != service.Anothers && !slices.Contains(book.Holders(a), who) && !slices.Contains(m.allocations.cluster.Store.Contenders(a), who) {
				m.t.Fatalf("%s has %s, which the store has for %q", who, a, book.Holders(a))
			}
		}
	}
}

// checkQuiet is what must be true once nothing changes any more.
func (m *model) checkQuiet() {
	used := map[netip.Addr]bool{}
	for who, svc := range m.live {
		if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
			m.checkReleased(who, svc)
			continue
		}
		r := m.allocations.judged(service.Read(svc, m.byDefault))
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

// checkBooked fails if the store has something else for a Service than it shows.
func (m *model) checkBooked(who ipam.Owner, r service.Request) {
	booked := m.allocations.cluster.Store.Shown(who)
	slices.SortFunc(booked, netip.Addr.Compare)
	if !slices.Equal(booked, slices.SortedFunc(slices.Values(r.Held), netip.Addr.Compare)) {
		m.t.Fatalf("%s, which is %s, has %s, and the store has %s for it", who, r.Owner, r.Held, booked)
	}
}

// checkServed fails if a Service of ours would get something else than it has.
func (m *model) checkServed(who ipam.Owner, svc *corev1.Service, r service.Request) {
	choice := m.allocations.choose(r)
	said := meta.FindStatusCondition(svc.Status.Conditions, service.ConditionAllocated)
	if said == nil {
		said = &metav1.Condition{}
	}
	// Why a Service has not got all may change without doing it any good.
	if now := choice.Result; len(r.Strange) > 0 || !slices.Equal(now.Addresses, r.Held) || now.Reevaluated ||
		(now.Reason == ipam.ReasonAllocated) != (said.Reason == ipam.ReasonAllocated) {
		m.t.Fatalf("%s has %s beside %s, %s: %s\nand could have %s, %s: %s", who, r.Held, r.Strange, said.Reason, said.Message,
			now.Addresses, now.Reason, now.Message)
	}
}

// checkReleased fails if PureLB left anything in a Service that is not ours.
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

// checkUsage fails if an address that no Service has counts as one in use.
func (m *model) checkUsage(used map[netip.Addr]bool) {
	for _, u := range m.allocations.usages(nil) {
		if u.group.Backend != "" {
			continue // What is granted counts, also before a Service shows it.
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

func TestNoAddressIsLostOrDoubledWhateverFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		steps := map[string]func(*rapid.T){
			"": func(*rapid.T) {
				m.check()
				m.checkAnnounced()
			},
			"create": func(*rapid.T) { m.create(m.anyone()) },
			"edit":   func(*rapid.T) { m.change(m.anyone(), m.want) },
			"retype": func(*rapid.T) { m.retype(m.anyone()) },
			"meddle": func(*rapid.T) { m.meddle(m.anyone()) },
			"strip":  func(*rapid.T) { m.strip(m.anyone()) },
			"remove": func(*rapid.T) { m.remove(m.anyone()) },
			"anew": func(*rapid.T) {
				who := m.anyone()
				m.remove(who)
				m.create(who)
			},
			"sync":    func(*rapid.T) { m.sync(m.anyone()) },
			"arrive":  func(*rapid.T) { m.arrive() },
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
	})
}
