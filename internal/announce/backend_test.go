package announce

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// backends adds groups with backends, one of them in the namespace team, and the group plain
// without a backend.
func backends(s *Situation) {
	s.Config.Groups.Usable = append(s.Config.Groups.Usable,
		ipam.Group{Name: "far", Backend: "NetBox", Announce: ipam.AnnounceRemote},
		ipam.Group{Name: "wide", Backend: "NetBox", Announce: ipam.AnnounceRemote, Masks: map[addr.Family]int{addr.V4: 24, addr.V6: 48}},
		ipam.Group{Name: "near", Backend: "acme", Announce: ipam.AnnounceLocal, Masks: map[addr.Family]int{addr.V4: 16}},
		ipam.Group{Name: "wide", Namespace: "team", Outside: true, Backend: "acme", Announce: ipam.AnnounceRemote, Masks: map[addr.Family]int{addr.V4: 28}},
		ipam.Group{Name: "plain", Announce: ipam.AnnounceLocal},
	)
}

func from(groups string) func(*Service) { return func(s *Service) { s.From = groups } }

func TestAddressesOfBackends(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given []twist
		want  string
	}{
		{"every node has a remote one, as a route of its own",
			[]twist{serveAs("default/web", from("far"), "203.0.113.7", "2001:db8:9::7")},
			"default/web 203.0.113.7: remote, announcingNonLocal, 203.0.113.7/32 dev kube-lb0\n" +
				"default/web 2001:db8:9::7: remote, announcingNonLocal, 2001:db8:9::7/128 dev kube-lb0\n"},
		{"or with the masks of its group",
			[]twist{serveAs("default/web", from("wide"), "203.0.113.7", "2001:db8:9::7")},
			"default/web 203.0.113.7: remote, announcingNonLocal, 203.0.113.7/24 dev kube-lb0\n" +
				"default/web 2001:db8:9::7: remote, announcingNonLocal, 2001:db8:9::7/48 dev kube-lb0\n"},
		{"a new mask replaces the old one",
			[]twist{serveAs("default/web", from("wide"), "203.0.113.7"), has(hasRemote("kube-lb0", "203.0.113.7/32"))},
			"default/web 203.0.113.7: remote, announcingNonLocal, 203.0.113.7/24 dev kube-lb0\n"},
		{"the group of another namespace is another one",
			[]twist{serveAs("default/web", from("team/wide"), "203.0.113.7")},
			"default/web 203.0.113.7: remote, announcingNonLocal, 203.0.113.7/28 dev kube-lb0\n"},
		{"a local one is nowhere if no node has its network",
			[]twist{serveAs("default/web", from("near"), "203.0.113.7")},
			"default/web 203.0.113.7: no, noLocalInterface\n"},
		{"in a network of nodes one node has it, whatever its group says",
			[]twist{serveAs("default/web", from("far"), "2001:db8::5:5")},
			"default/web 2001:db8::5:5: no, lostElection, node-b\n"},
		{"of several groups the longest mask counts",
			[]twist{serveAs("default/web", from("wide, team/wide"), "203.0.113.7", "2001:db8:9::7")},
			"default/web 203.0.113.7: remote, announcingNonLocal, 203.0.113.7/28 dev kube-lb0\n" +
				"default/web 2001:db8:9::7: remote, announcingNonLocal, 2001:db8:9::7/128 dev kube-lb0\n"},
		{"and it is remote only if all of them are",
			[]twist{serveAs("default/web", from("wide, near"), "203.0.113.7")},
			"default/web 203.0.113.7: no, noLocalInterface\n"},
		{"groups without a backend do not count",
			[]twist{serveAs("default/web", from("plain, wide"), "203.0.113.7")},
			"default/web 203.0.113.7: remote, announcingNonLocal, 203.0.113.7/24 dev kube-lb0\n"},
		{"an address in a pool has what its pool says",
			[]twist{serveAs("default/web", from("wide, 172.16.0.0/24+fd16::/64"), "172.16.0.1")},
			"default/web 172.16.0.1: remote, announcingNonLocal, 172.16.0.1/24 dev kube-lb0\n"},
		{"the Services that share an address all have a say",
			[]twist{serveAs("default/a", from("wide"), "203.0.113.7"), serveAs("default/b", from("team/wide"), "203.0.113.7")},
			"default/a 203.0.113.7: remote, announcingNonLocal, 203.0.113.7/28 dev kube-lb0\n" +
				"default/b 203.0.113.7: remote, announcingNonLocal, 203.0.113.7/28 dev kube-lb0\n"},
		{"without its group a remote one stays as it is",
			[]twist{serveAs("default/web", from("gone"), "203.0.113.7"), has(hasRemote("kube-lb0", "203.0.113.7/24"))},
			"default/web 203.0.113.7: remote, announcingNonLocal, 203.0.113.7/24 dev kube-lb0\n"},
		{"policy Local: not on nodes without an endpoint",
			[]twist{serveAs("default/web", func(s *Service) { s.From, s.LocalPolicy = "far", true }, "203.0.113.7"), ready("default/web", false)},
			"default/web 203.0.113.7: no, noEndpoints\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := theSituation()
			for _, change := range append([]twist{backends}, tt.given...) {
				change(&s)
			}
			if diff := cmp.Diff(tt.want, show(Decide(s))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestReadKnowsWhichGroupsGaveTheAddresses(t *testing.T) {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{service.AnnotationAllocatedBy: service.Brand, service.AnnotationAllocatedFrom: "far, near"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.10"},
	}
	if got, _ := Read(svc); got.From != "far, near" {
		t.Errorf("got %+v", got)
	}
}
