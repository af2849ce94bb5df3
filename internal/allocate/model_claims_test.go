package allocate

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// TestBackendsLoseAndDoubleNoAddress runs the model with two Services and a group with a backend. A lost answer
// does harm only if its Service changes or goes meanwhile. In the large model, that happens too rarely.
func TestBackendsLoseAndDoubleNoAddress(t *testing.T) { runModel(t, backedAtAnyStep) }

// backedAtAnyStep runs the model of a backend with random steps.
func backedAtAnyStep(t *rapid.T) {
	m := newModel(t)
	m.backed, m.blocked = true, nil
	local := groups.Group{Name: ipam.DefaultGroup, Announce: groups.AnnounceRemote}
	for _, subnet := range []string{"192.0.2.0/24", "198.51.100.0/24", "2001:db8::/64"} {
		p, err := groups.ParsePool(subnet, subnet, "default")
		must(t, err)
		local.Pools = append(local.Pools, p)
	}
	m.groups = []groups.Group{local, {Name: "box", Announce: groups.AnnounceRemote, Backend: "NetBox"}}
	m.configure()
	services := []ipam.Owner{"red/a", "red/b"}
	some := func() ipam.Owner { return rapid.SampledFrom(services).Draw(t, "service") }
	outcome := func() string {
		return rapid.SampledFrom([]string{"well", "well", "well", "lost", "done"}).Draw(t, "outcome")
	}
	steps := m.boxSteps()
	delete(steps, "fault")
	steps[""] = func(*rapid.T) {
		m.check()
		m.checkBackend()
	}
	steps["edit"] = func(*rapid.T) {
		who := some()
		if m.live[who] == nil {
			svc := balancerOf(who)
			svc.UID = types.UID(fmt.Sprint(m.version))
			m.put(who, svc)
		}
		m.change(who, m.wantOfBackend)
	}
	steps["remove"] = func(*rapid.T) { m.remove(some()) }
	loop := func(*rapid.T) { m.round(services, outcome) }
	steps["loop"], steps["loop again"] = loop, loop
	steps["begin"] = func(*rapid.T) { m.begin(some()) }
	steps["finish"] = func(*rapid.T) { m.finish(some(), outcome()) }
	steps["restart"] = func(*rapid.T) { m.restart() }
	t.Repeat(steps)
}

// wantOfBackend makes svc request anything of the backend.
func (m *model) wantOfBackend(svc *corev1.Service) {
	set := func(name string, values ...string) {
		delete(svc.Annotations, name)
		if value := rapid.SampledFrom(values).Draw(m.t, name); value != "" {
			svc.Annotations[name] = value
		}
	}
	set(service.AnnotationGroup, "box", "box", "box", "default")
	set(service.AnnotationAddresses, "", "", "", "100.64.0.1", "100.64.0.2,2001:db8:64::1")
	set(service.AnnotationSharing, "", "", "", "key")
	policy := rapid.SampledFrom([]corev1.IPFamilyPolicy{"SingleStack", "RequireDualStack", "PreferDualStack"}).Draw(m.t, "policy")
	svc.Spec.IPFamilyPolicy, svc.Spec.IPFamilies = &policy, []corev1.IPFamily{"IPv4", "IPv6"}
	if policy == "SingleStack" {
		svc.Spec.IPFamilies = svc.Spec.IPFamilies[:1]
	}
}
