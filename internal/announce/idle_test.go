package announce_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
)

// withdrawing makes every group withdraw the addresses of Services without endpoints.
func withdrawing(s *announce.Situation) {
	list := s.Config.Groups.Usable
	for i := range list {
		list[i].WithdrawIdle = true
	}
	s.Config = config.Config{Groups: groups.Groups{Usable: list}}
}

// endpointsOf gives a Service endpoints on these nodes that have been ready for a long time.
func endpointsOf(key string, nodes ...string) twist {
	return func(s *announce.Situation) {
		maps.Copy(s.Endpoints, onNodes(key, nodes...))
		state := announce.Serving
		if len(nodes) == 0 {
			state = announce.Idle
		}
		idleness(key, state)(s)
	}
}

// idleness sets the Idleness of a Service for both families.
func idleness(key string, state announce.Idleness) twist {
	return func(s *announce.Situation) {
		s.Idle = maps.Clone(s.Idle)
		if s.Idle == nil {
			s.Idle = map[announce.ServiceFamily]announce.Idleness{}
		}
		for _, f := range []addr.Family{addr.V4, addr.V6} {
			s.Idle[announce.ServiceFamily{key, f}] = state
		}
	}
}

func TestIdleAddressesAreWithdrawn(t *testing.T) {
	web, far := serve("10.0.0.5", "fd16::1"), serveAs("default/far", nil, "fd16::1")
	here := has(hasLocal("eth0", "10.0.0.5/24", lifetime), hasRemote("kube-lb0", "fd16::1/64"))
	on := "10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0 expiring\n" +
		"fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\n"
	decisions{
		{"no endpoint anywhere", []twist{withdrawing, web, here, endpointsOf("default/web")},
			"10.0.0.5: no, noEndpointsAnywhere\nfd16::1: no, noEndpointsAnywhere\n"},
		{"an endpoint on another node", []twist{withdrawing, web, here, endpointsOf("default/web", "node-z")}, on},
		{"an endpoint outside of the cluster", []twist{withdrawing, web, here, endpointsOf("default/web", "")}, on},
		{"none of IPv6", []twist{withdrawing, web, here, endpointsOf("default/web", "node-z"), func(s *announce.Situation) { s.Idle[announce.ServiceFamily{"default/web", addr.V6}] = announce.Idle }},
			"10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0 expiring\nfd16::1: no, noEndpointsAnywhere\n"},
		{"they have just gone: what is here stays", []twist{withdrawing, web, here, endpointsOf("default/web"), idleness("default/web", announce.Wavering)}, on},
		{"they have just gone: nothing comes", []twist{withdrawing, web, endpointsOf("default/web"), idleness("default/web", announce.Wavering)},
			"10.0.0.5: no, noEndpointsAnywhere\nfd16::1: no, noEndpointsAnywhere\n"},
		{"the group is gone, and the Service was idle before", []twist{noGroups, web, endpointsOf("default/web")},
			"10.0.0.5: no, noEndpointsAnywhere\nfd16::1: no, noEndpointsAnywhere\n"},
		{"of those that share it, one has just lost its endpoints", []twist{withdrawing, serve("fd16::1"), far, endpointsOf("default/web"), idleness("default/far", announce.Wavering), has(hasRemote("kube-lb0", "fd16::1/64"))},
			"default/far fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\nfd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\n"},
		{"endpoints that are not known yet: what is here stays", []twist{withdrawing, web, here},
			"10.0.0.5: local, kept, 10.0.0.5/24 dev eth0 expiring\nfd16::1: remote, kept, fd16::1/64 dev kube-lb0\n"},
		{"endpoints that are not known yet: nothing comes", []twist{withdrawing, web}, "10.0.0.5: no, undecided\nfd16::1: no, undecided\n"},
		{"the group does not ask for it", []twist{web, here, endpointsOf("default/web")}, on},
		{"a view that is not complete", []twist{withdrawing, untrusted, web, here, endpointsOf("default/web")},
			"10.0.0.5: local, kept, 10.0.0.5/24 dev eth0 expiring\nfd16::1: remote, kept, fd16::1/64 dev kube-lb0\n"},
		{"a Service that shares it has one", []twist{withdrawing, serve("fd16::1"), far, endpointsOf("default/web"), endpointsOf("default/far", "node-z")},
			"default/far fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\nfd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\n"},
		{"no Service that shares it has one", []twist{withdrawing, serve("fd16::1"), far, endpointsOf("default/web"), endpointsOf("default/far")},
			"default/far fd16::1: no, noEndpointsAnywhere\nfd16::1: no, noEndpointsAnywhere\n"},
		{"of those that share it, one is not known yet", []twist{withdrawing, serve("fd16::1"), far, endpointsOf("default/web"), has(hasRemote("kube-lb0", "fd16::1/64"))},
			"default/far fd16::1: remote, kept, fd16::1/64 dev kube-lb0\nfd16::1: remote, kept, fd16::1/64 dev kube-lb0\n"},
		{"of those that share it, one is not known yet and one has one", []twist{withdrawing, serve("fd16::1"), far, endpointsOf("default/far", "node-z")},
			"default/far fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\nfd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\n"},
	}.check(t)
}

// No pool contains the address of a backend: the Service names the group of the address.
func TestIdleBackendAddressesAreWithdrawn(t *testing.T) {
	netbox := groups.Group{Name: "netbox", Announce: groups.AnnounceRemote, Backend: "NetBox", WithdrawIdle: true}
	s := situation(serveAs("default/web", from("netbox"), "198.18.0.7"), endpointsOf("default/web"))
	s.Config.Groups = groupsOf(netbox)
	equal(t, show(announce.Decide(s)), "198.18.0.7: no, noEndpointsAnywhere\n")
}

// The cases are a rolling update of one replica, a pod that crashes again and again, and a
// Service that is scaled down over night. Each look is the time, whether there are endpoints
// ("ends": they end), and what is said: the Idleness, and until when.
func TestIdleDamping(t *testing.T) {
	for name, looks := range map[string]string{
		"endpoints all the time":  "0s yes serving, 1h yes serving",
		"away for a moment":       "0s yes serving, 10s no wavering 15s, 14s no wavering 15s, 14.999s yes serving, 16s yes serving",
		"away for long":           "0s yes serving, 10s no wavering 15s, 15s no idle, 1h no idle, 2h yes serving",
		"ending counts":           "0s yes serving, 1s ends serving, 1h ends serving",
		"unknown changes nothing": "0s yes serving, 10s no wavering 15s, 12s unknown unknown, 14s no wavering 15s, 20s no idle",
		"again and again":         "0s no wavering 5s, 5s no idle, 6s yes serving, 10s no wavering 15s, 15s no idle, 20s yes serving",
	} {
		t.Run(name, func(t *testing.T) {
			web := announce.ServiceFamily{Service: "default/web", Family: addr.V4}
			states := map[announce.Idleness]string{announce.Serving: "serving", announce.Wavering: "wavering", announce.Idle: "idle"}
			var d announce.IdleDamping
			for look := range strings.SplitSeq(looks, ", ") {
				words := strings.Fields(look)
				after, _ := time.ParseDuration(words[0])
				ready, ending := announce.Endpoints{{"default/other", addr.V4}: nil}, announce.Endpoints{}
				switch words[1] {
				case "yes":
					ready[web] = []string{"node-a"}
				case "no":
					ready[web] = nil
				case "ends":
					ready[web], ending[web] = nil, []string{"node-a"}
				}
				idle, again := d.Observe(begin.Add(after), map[string]bool{"default/web": true}, ready, ending)
				got := "unknown"
				if state, known := idle[web]; known {
					got = states[state]
				}
				if !again.IsZero() {
					got += " " + again.Sub(begin).String()
				}
				if want := strings.Join(words[2:], " "); got != want {
					t.Errorf("%s: %s", look, got)
				}
				if len(idle) > 1 {
					t.Error("it says something of a Service that is not withdrawing")
				}
			}
		})
	}
}

func TestFollowedServicesAskForIt(t *testing.T) {
	anycast, plain := groupOf(groups.AnnounceRemote, "172.16.0.0/24"), groupOf(groups.AnnounceRemote, "172.17.0.0/24")
	anycast.WithdrawIdle = true
	backend := groups.Group{Name: "netbox", Announce: groups.AnnounceRemote, Backend: "NetBox", WithdrawIdle: true}
	gs := groupsOf(anycast, plain, backend)
	services := []announce.Service{
		{Key: "default/affine", Affinity: true, Addresses: addrs("172.17.0.3")},
		{Key: "default/anycast", Addresses: addrs("172.16.0.1")},
		{Key: "default/backend", From: "netbox", Addresses: addrs("198.18.0.7")},
		{Key: "default/both", Addresses: addrs("172.17.0.4", "172.16.0.4")},
		{Key: "default/local", LocalPolicy: true, Addresses: addrs("172.17.0.2")},
		{Key: "default/plain", Addresses: addrs("172.17.0.1")},
	}
	var d announce.IdleDamping
	follows := func(groups groups.Groups) []string {
		return slices.Sorted(maps.Keys(announce.Follows(services, d.Withdrawing(services, groups))))
	}
	want := []string{"default/affine", "default/anycast", "default/backend", "default/both", "default/local"}
	equal(t, follows(gs), want)
	began, idle := time.Now(), onNodes("default/anycast")
	for _, after := range []time.Duration{0, 5 * time.Second} {
		d.Observe(began.Add(after), d.Withdrawing(services, gs), idle, nil)
	}
	gone := groupsOf(plain)
	want = []string{"default/affine", "default/anycast", "default/local"}
	equal(t, follows(gone), want)
	anycast.WithdrawIdle = false
	off := groupsOf(anycast, plain)
	want = []string{"default/affine", "default/local"}
	equal(t, follows(off), want)
}
