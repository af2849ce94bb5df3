package announce

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/ipam"
)

// withdrawing has every group withdraw the addresses of Services without endpoints.
func withdrawing(s *Situation) {
	groups := s.Config.Groups.Usable
	for i := range groups {
		groups[i].WithdrawIdle = true
	}
	s.Config = config.Config{Groups: ipam.Groups{Usable: groups}}
}

// endpointsOf has a Service have ready endpoints on these nodes.
func endpointsOf(key string, nodes ...string) twist {
	return func(s *Situation) { s.Endpoints[key] = nodes }
}

func endingOf(key string, nodes ...string) twist {
	return func(s *Situation) { s.Ending = map[string][]string{key: nodes} }
}

func TestAddressesWithoutEndpointsAreWithdrawnWhereTheGroupAsksForIt(t *testing.T) {
	web, far := serve("10.0.0.5", "fd16::1"), serveAs("default/far", nil, "fd16::1")
	here := has(hasLocal("eth0", "10.0.0.5/24", lifetime), hasRemote("kube-lb0", "fd16::1/64"))
	on := "default/web 10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0" + v4Attributes +
		"default/web fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\n"
	for _, tt := range []struct {
		name  string
		given []twist
		want  string
	}{
		{"no endpoint anywhere", []twist{withdrawing, web, here, endpointsOf("default/web")},
			"default/web 10.0.0.5: no, noEndpointsAnywhere\ndefault/web fd16::1: no, noEndpointsAnywhere\n"},
		{"an endpoint on another node", []twist{withdrawing, web, here, endpointsOf("default/web", "node-z")}, on},
		{"an endpoint outside of the cluster", []twist{withdrawing, web, here, endpointsOf("default/web", "")}, on},
		{"one that ends and serves still", []twist{withdrawing, web, here, endpointsOf("default/web"), endingOf("default/web", "node-z")}, on},
		{"endpoints that are not known yet: what is here stays", []twist{withdrawing, web, here},
			"default/web 10.0.0.5: local, kept, 10.0.0.5/24 dev eth0" + v4Attributes + "default/web fd16::1: remote, kept, fd16::1/64 dev kube-lb0\n"},
		{"endpoints that are not known yet: nothing comes", []twist{withdrawing, web},
			"default/web 10.0.0.5: no, undecided\ndefault/web fd16::1: no, undecided\n"},
		{"the group does not ask for it", []twist{web, here, endpointsOf("default/web")}, on},
		{"a view that is not complete", []twist{withdrawing, untrusted, web, here, endpointsOf("default/web")},
			"default/web 10.0.0.5: local, kept, 10.0.0.5/24 dev eth0" + v4Attributes + "default/web fd16::1: remote, kept, fd16::1/64 dev kube-lb0\n"},
		{"a Service that shares it has one", []twist{withdrawing, serve("fd16::1"), far, endpointsOf("default/web"), endpointsOf("default/far", "node-z")},
			"default/far fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\ndefault/web fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\n"},
		{"no Service that shares it has one", []twist{withdrawing, serve("fd16::1"), far, endpointsOf("default/web"), endpointsOf("default/far")},
			"default/far fd16::1: no, noEndpointsAnywhere\ndefault/web fd16::1: no, noEndpointsAnywhere\n"},
		{"of those that share it, one is not known yet", []twist{withdrawing, serve("fd16::1"), far, endpointsOf("default/web"), has(hasRemote("kube-lb0", "fd16::1/64"))},
			"default/far fd16::1: remote, kept, fd16::1/64 dev kube-lb0\ndefault/web fd16::1: remote, kept, fd16::1/64 dev kube-lb0\n"},
		{"of those that share it, one is not known yet and one has one", []twist{withdrawing, serve("fd16::1"), far, endpointsOf("default/far", "node-z")},
			"default/far fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\ndefault/web fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := theSituation()
			for _, change := range tt.given {
				change(&s)
			}
			plan := Decide(s)
			if diff := cmp.Diff(tt.want, show(plan)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			for _, d := range plan.Decisions {
				if d.Reason == ReasonIdle && !strings.Contains(d.Why(), "withdrawWithoutEndpoints") {
					t.Errorf("why: %s", d.Why())
				}
			}
		})
	}
}

// No pool contains the address of a backend: the Service says which group gave it.
func TestAddressesOfABackendWithoutEndpointsAreWithdrawnToo(t *testing.T) {
	s := theSituation()
	netbox := ipam.Group{Name: "netbox", Announce: ipam.AnnounceRemote, Backend: "NetBox", WithdrawIdle: true}
	s.Config.Groups = ipam.NewGroups([]ipam.Group{netbox}, []ipam.Group{netbox}, nil, nil)
	serveAs("default/web", func(svc *Service) { svc.From = "netbox" }, "198.18.0.7")(&s)
	endpointsOf("default/web")(&s)
	if got, want := show(Decide(s)), "default/web 198.18.0.7: no, noEndpointsAnywhere\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
