package allocate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
)

// TestLateWritesDoubleNoAddress runs the model with two Services and one address. A late write does
// harm only if the status of its Service needs no other write meanwhile, and another Service gets the
// address. In the large model, that happens too rarely.
func TestLateWritesDoubleNoAddress(t *testing.T) { rapid.Check(t, lateAtAnyStep) }

// lateAtAnyStep runs the small model with random steps.
func lateAtAnyStep(t *rapid.T) {
	m := newModel(t)
	m.backed, m.blocked = false, nil
	services := []ipam.Owner{"red/a", "blue/a"}
	some := func() ipam.Owner { return rapid.SampledFrom(services).Draw(t, "service") }
	outcome := func() string {
		return rapid.SampledFrom([]string{"well", "well", "lost", "late", "late", "done"}).Draw(t, "outcome")
	}
	groups := func(*rapid.T) {
		p, err := groups.ParsePool("192.0.2.1-192.0.2.1", "192.0.2.0/24", "default")
		must(t, err)
		namespaces := rapid.SampledFrom([][]string{{"red"}, {"blue"}, {"red", "blue"}}).Draw(t, "namespaces")
		m.groups = []groups.Group{{Name: ipam.DefaultGroup, Announce: groups.AnnounceRemote, Pools: []groups.Pool{p},
			Boundary: groups.Boundary{Namespaces: namespaces, Enforce: true}}}
		m.configure()
	}
	loop := func(*rapid.T) { m.round(services, outcome) }
	for _, who := range services {
		m.put(who, balancerOf(who))
	}
	groups(t)
	t.Repeat(map[string]func(*rapid.T){
		"":     func(*rapid.T) { m.check() },
		"loop": loop,
		"edit": func(*rapid.T) {
			groups(t)
			loop(t)
		},
		"begin":   func(*rapid.T) { m.begin(some()) },
		"finish":  func(*rapid.T) { m.finish(some(), outcome()) },
		"sync":    func(*rapid.T) { m.sync(some()) },
		"arrive":  func(*rapid.T) { m.arrive() },
		"age":     func(*rapid.T) { m.age(some()) },
		"restart": func(*rapid.T) { m.restart() },
		"quiet": func(*rapid.T) {
			m.quiet()
			m.checkQuiet()
		},
	})
}

// balancerOf returns a Service of type LoadBalancer with an IPv4 address to be.
func balancerOf(who ipam.Owner) *corev1.Service {
	svc := plain()
	svc.Namespace, svc.Name = who.Namespace(), string(who[len(who.Namespace())+1:])
	return svc
}
