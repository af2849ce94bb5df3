package announce

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/ipam"
)

// withdrawing makes every group withdraw the addresses of Services without endpoints.
func withdrawing(s *Situation) {
	groups := s.Config.Groups.Usable
	for i := range groups {
		groups[i].WithdrawIdle = true
	}
	s.Config = config.Config{Groups: ipam.Groups{Usable: groups}}
}

// endpointsOf gives a Service endpoints on these nodes that have been ready for a long time.
func endpointsOf(key string, nodes ...string) twist {
	return func(s *Situation) {
		maps.Copy(s.Endpoints, onNodes(key, nodes...))
		state := Serving
		if len(nodes) == 0 {
			state = Idle
		}
		idleness(key, state)(s)
	}
}

// idleness sets the Idleness of a Service for both families.
func idleness(key string, state Idleness) twist {
	return func(s *Situation) {
		s.Idle = maps.Clone(s.Idle)
		if s.Idle == nil {
			s.Idle = map[ServiceFamily]Idleness{}
		}
		for _, f := range []addr.Family{addr.V4, addr.V6} {
			s.Idle[ServiceFamily{key, f}] = state
		}
	}
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
		{"none of IPv6", []twist{withdrawing, web, here, endpointsOf("default/web", "node-z"), func(s *Situation) { s.Idle[ServiceFamily{"default/web", addr.V6}] = Idle }},
			"default/web 10.0.0.5: local, electionWon, 10.0.0.5/24 dev eth0" + v4Attributes + "default/web fd16::1: no, noEndpointsAnywhere\n"},
		{"they have just gone: what is here stays", []twist{withdrawing, web, here, endpointsOf("default/web"), idleness("default/web", Wavering)}, on},
		{"they have just gone: nothing comes", []twist{withdrawing, web, endpointsOf("default/web"), idleness("default/web", Wavering)},
			"default/web 10.0.0.5: no, noEndpointsAnywhere\ndefault/web fd16::1: no, noEndpointsAnywhere\n"},
		{"the group is gone, and the Service was idle before", []twist{noGroups, web, endpointsOf("default/web")},
			"default/web 10.0.0.5: no, noEndpointsAnywhere\ndefault/web fd16::1: no, noEndpointsAnywhere\n"},
		{"of those that share it, one has just lost its endpoints", []twist{withdrawing, serve("fd16::1"), far, endpointsOf("default/web"), idleness("default/far", Wavering), has(hasRemote("kube-lb0", "fd16::1/64"))},
			"default/far fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\ndefault/web fd16::1: remote, announcingNonLocal, fd16::1/64 dev kube-lb0\n"},
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

// No pool contains the address of a backend: the Service names the group of the address.
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

// The cases are a rolling update of one replica, a pod that crashes again and again, and a
// Service that is scaled down over night.
func TestIdleDamping(t *testing.T) {
	const yes, no, ends = "yes", "no", "ends"
	type look struct {
		after     time.Duration // after the beginning
		endpoints string        // "" is not known
		want      Idleness
		again     time.Duration // after the beginning; 0: never
	}
	for _, tt := range []struct {
		name  string
		looks []look
	}{
		{"endpoints all the time", []look{{0, yes, Serving, 0}, {time.Hour, yes, Serving, 0}}},
		{"away for a moment", []look{
			{0, yes, Serving, 0},
			{10 * time.Second, no, Wavering, 15 * time.Second},
			{14 * time.Second, no, Wavering, 15 * time.Second},
			{14*time.Second + 999*time.Millisecond, yes, Serving, 0},
			{16 * time.Second, yes, Serving, 0},
		}},
		{"away for long, and back", []look{
			{0, yes, Serving, 0},
			{10 * time.Second, no, Wavering, 15 * time.Second},
			{15 * time.Second, no, Idle, 0},
			{time.Hour, no, Idle, 0},
			{2 * time.Hour, yes, Serving, 0},
		}},
		{"ending counts", []look{{0, yes, Serving, 0}, {time.Second, ends, Serving, 0}, {time.Hour, ends, Serving, 0}}},
		{"unknown changes nothing", []look{
			{0, yes, Serving, 0},
			{10 * time.Second, no, Wavering, 15 * time.Second},
			{12 * time.Second, "", Serving, 0}, // nothing is said
			{14 * time.Second, no, Wavering, 15 * time.Second},
			{20 * time.Second, no, Idle, 0},
		}},
		{"again and again: each time it takes twice as long", []look{
			{0, no, Wavering, 5 * time.Second},
			{5 * time.Second, no, Idle, 0},
			{6 * time.Second, yes, Serving, 0},
			{10 * time.Second, no, Wavering, 15 * time.Second},
			{15 * time.Second, no, Idle, 0},
			{20 * time.Second, yes, Wavering, 21 * time.Second},
			{21 * time.Second, yes, Serving, 0},
			{30 * time.Second, no, Wavering, 35 * time.Second},
			{35 * time.Second, no, Idle, 0},
			{40 * time.Second, yes, Wavering, 42 * time.Second},
			{41 * time.Second, no, Idle, 0},
			{50 * time.Second, yes, Wavering, 52 * time.Second},
			{52 * time.Second, yes, Serving, 0},
		}},
		{"a minute without a withdrawal is forgiven", []look{
			{0, no, Wavering, 5 * time.Second},
			{5 * time.Second, no, Idle, 0},
			{6 * time.Second, yes, Serving, 0},
			{66 * time.Second, yes, Serving, 0},
			{70 * time.Second, no, Wavering, 75 * time.Second},
			{75 * time.Second, no, Idle, 0},
			{80 * time.Second, yes, Serving, 0},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			web := ServiceFamily{"default/web", addr.V4}
			var d IdleDamping
			for _, l := range tt.looks {
				ready, ending := Endpoints{{"default/other", addr.V4}: nil}, Endpoints{}
				switch l.endpoints {
				case yes:
					ready[web] = []string{"node-a"}
				case no:
					ready[web] = nil
				case ends:
					ready[web], ending[web] = nil, []string{"node-a"}
				}
				idle, again := d.Observe(began.Add(l.after), map[string]bool{"default/web": true}, ready, ending)
				if idle[web] != l.want {
					t.Errorf("after %v: %v, want %v", l.after, idle[web], l.want)
				}
				var want time.Time
				if l.again > 0 {
					want = began.Add(l.again)
				}
				if !again.Equal(want) {
					t.Errorf("after %v: again at %v, want %v", l.after, again, want)
				}
				if _, other := idle[ServiceFamily{"default/other", addr.V4}]; other {
					t.Error("it says something of a Service that is not withdrawing")
				}
			}
		})
	}
}

func TestOnlyServicesThatAskForItAreFollowed(t *testing.T) {
	anycast, plain := groupOf(ipam.AnnounceRemote, "172.16.0.0/24"), groupOf(ipam.AnnounceRemote, "172.17.0.0/24")
	anycast.WithdrawIdle = true
	backend := ipam.Group{Name: "netbox", Announce: ipam.AnnounceRemote, Backend: "NetBox", WithdrawIdle: true}
	all := []ipam.Group{anycast, plain, backend}
	groups := ipam.NewGroups(all, all, nil, nil)
	services := []Service{
		{Key: "default/affine", Affinity: true, Addresses: addresses("172.17.0.3")},
		{Key: "default/anycast", Addresses: addresses("172.16.0.1")},
		{Key: "default/backend", From: "netbox", Addresses: addresses("198.18.0.7")},
		{Key: "default/both", Addresses: addresses("172.17.0.4", "172.16.0.4")},
		{Key: "default/local", LocalPolicy: true, Addresses: addresses("172.17.0.2")},
		{Key: "default/plain", Addresses: addresses("172.17.0.1")},
	}
	var d IdleDamping
	follows := func(groups ipam.Groups) []string {
		return slices.Sorted(maps.Keys(Follows(services, d.Withdrawing(services, groups))))
	}
	want := []string{"default/affine", "default/anycast", "default/backend", "default/both", "default/local"}
	if got := follows(groups); !slices.Equal(got, want) {
		t.Errorf("followed: %v, want %v", got, want)
	}
	began, idle := time.Now(), onNodes("default/anycast")
	for _, after := range []time.Duration{0, idleAfter} {
		d.Observe(began.Add(after), d.Withdrawing(services, groups), idle, nil)
	}
	gone := ipam.NewGroups([]ipam.Group{plain}, []ipam.Group{plain}, nil, nil)
	want = []string{"default/affine", "default/anycast", "default/local"}
	if got := follows(gone); !slices.Equal(got, want) {
		t.Errorf("without the groups, what is idle is followed: %v, want %v", got, want)
	}
	anycast.WithdrawIdle = false
	off := ipam.NewGroups([]ipam.Group{anycast, plain}, []ipam.Group{anycast, plain}, nil, nil)
	want = []string{"default/affine", "default/local"}
	if got := follows(off); !slices.Equal(got, want) {
		t.Errorf("when the group asks for it no more: %v, want %v", got, want)
	}
}

func addresses(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// On a quiet node no pass comes between the end of the steady time and the next change.
func TestASteadyServiceIsForgivenWithoutAPass(t *testing.T) {
	web := ServiceFamily{"default/web", addr.V4}
	asks, d, now := map[string]bool{"default/web": true}, IdleDamping{}, time.Unix(1000, 0)
	at := func(after time.Duration, nodes ...string) (Idleness, time.Time) {
		now = now.Add(after)
		idle, again := d.Observe(now, asks, Endpoints{web: nodes}, nil)
		return idle[web], again
	}
	for n := range 3 {
		at(0, "node-a")
		at(0)
		at(idleAfter)
		at(0, "node-a")
		at(flapPause(n+1), "node-a") // the addresses return
	}
	if n := d.each[web].times; n != 3 {
		t.Fatalf("%d withdrawals in a row, want 3", n)
	}
	at(steadyAfter) // the endpoints go
	at(idleAfter)
	if state, again := at(0, "node-a"); state != Serving || !again.IsZero() {
		t.Errorf("a Service that was steady for a minute is %v until %s", state, again.Sub(now))
	}
}
