package allocator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"purelb.io/purelb/internal/allocstate"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// stateOf returns the state server of s, as the leader has it.
func (s *fixture) stateOf(services *services) *stateServer {
	elected := make(chan struct{})
	close(elected)
	lock, _, _ := candidate(nil)
	lock.leading, lock.holder = true, "me"
	return &stateServer{allocations: s.allocations, services: services, workers: &backendWorkers{}, leader: lock, elected: elected}
}

// asked returns the answer to a request with this query.
func (s *stateServer) asked(t *testing.T, query string) (a allocstate.State, size int) {
	t.Helper()
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, allocstate.Path+query, nil))
	if err := json.Unmarshal(answer.Body.Bytes(), &a); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("%v, %d: %s", err, answer.Code, answer.Body)
	}
	return a, answer.Body.Len()
}

func inGroup(name string) func(*service.Request) {
	return func(r *service.Request) { r.Group = name }
}

func TestStateSaysWhyServicesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		s.change(clusterState{})
		now := s.now
		now.config.Groups.Usable = []ipam.Group{group(t, "default", "192.0.2.1-192.0.2.2"), backedBox}
		now.blocked = map[netip.Addr]string{netip.MustParseAddr("192.0.2.1"): "an address of another machine"}
		now.quarantined = now.blocked
		s.change(now)
		s.gets(s.wants("holder"), "192.0.2.2")
		s.gets(s.wants("waiter"), "")
		s.gets(s.wants("boxed", inGroup("box")), "")
		answerEach(s.allocations, takeClaims(s.allocations, "box"), refusal(ipam.KindExhausted, "all are in use"))
		loop := &services{}
		loop.memories.delay(types.NamespacedName{Namespace: "default", Name: "fought"}, delayed{"another controller changes it", time.Now().Add(time.Minute)})

		a, _ := s.stateOf(loop).asked(t, "?service=default/boxed&ip=192.0.2.2")
		got := fmt.Sprintln(a.Format, a.Identity, a.Leader, a.Leading, a.Complete, a.Services)
		for _, w := range a.Waiting {
			got += fmt.Sprintln(w.Service, w.Reason, w.Since.Equal(time.Now()))
			for _, g := range w.Groups {
				got += strings.TrimRight(fmt.Sprintf(" %d %s: %s: %s", g.Place, g.Group, g.Why, g.Lacks), " ") + "\n"
			}
		}
		for _, c := range a.Claims {
			got += fmt.Sprintln(c.Group, c.Family, c.Services, c.Phase, c.Failure)
		}
		got += fmt.Sprintln(a.Withheld, a.Delayed[0].Service, a.Delayed[0].Why)
		got += fmt.Sprintln(a.Service.Known, a.Service.Holds, a.Service.Waiting.Reason, len(a.Service.Claims))
		got += fmt.Sprintln(a.Address.Address, a.Address.Holders, a.Address.Why)
		if want := `1 me me true true 3
default/waiter Exhausted true
 1 default: it is called default, and no group is for this Service alone: pool "default" exhausted: no available addresses for default/waiter (IPv4)
 0 box: it has no priority and is not called default, so only Services that name it get addresses from it:
default/boxed Exhausted true
 1 box: the Service names it by the annotation purelb.io/service-group: pool "box" exhausted: no available addresses for default/boxed (IPv4): all are in use
 0 default: the Service names "box":
box IPv4 [default/boxed] refused all are in use
[{192.0.2.1 an address of another machine true}] default/fought another controller changes it
true [] Exhausted 1
192.0.2.2 [default/holder] it is held by default/holder
`; got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

// When a Service is deleted, its address goes back to the backend, which may take a while.
func TestStateShowsReleases(t *testing.T) {
	s := newFixture(t, backedBox)
	r := s.wants("web", inGroup("box"))
	s.gets(r, "")
	claims := takeClaims(s.allocations, "box")
	answerEach(s.allocations, claims, ipam.Answer{Grant: ipam.Grant{Key: claims[0].Key, Address: netip.MustParseAddr("203.0.113.7")}})
	s.gets(r, "203.0.113.7")
	s.forget(owner(r))
	for _, want := range []ipam.Phase{ipam.PhaseEnded, ipam.PhaseReturning} {
		a, _ := s.stateOf(&services{}).asked(t, "?ip=203.0.113.7")
		if len(a.Claims) != 1 || a.Claims[0].Phase != string(want) || a.Address.Claim == nil || a.Address.Claim.Address.String() != "203.0.113.7" {
			t.Errorf("claims are %+v, and the address is %+v; want %s", a.Claims, a.Address, want)
		}
		takeAll(s.allocations, "box")
	}
}

func TestStateOfAStandbyNamesTheLeader(t *testing.T) {
	s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.1"))
	s.gets(s.wants("a"), "192.0.2.1")
	s.gets(s.wants("b"), "")
	server := s.stateOf(&services{})
	server.leader.leading, server.leader.holder = false, "allocator-2"
	a, _ := server.asked(t, "?service=default/b")
	if a.Leading || a.Leader != "allocator-2" || a.Identity != "me" || len(a.Waiting) > 0 || a.Service != nil {
		t.Errorf("the answer is %+v", a)
	}
}

func TestStateIsBounded(t *testing.T) {
	var groups []ipam.Group
	for i := range mostGroups + 10 {
		groups = append(groups, group(t, fmt.Sprintf("%s-%d", strings.Repeat("long", 15), i), fmt.Sprintf("10.%d.%d.1-10.%d.%d.1", i/200, i%200, i/200, i%200)))
	}
	s := newFixture(t, append(groups, backedBox)...)
	const n = 300
	for i := range n {
		s.gets(s.wants(fmt.Sprintf("%s-%d", strings.Repeat("name", 12), i), inGroup([]string{"typo", "box"}[i%2])), "")
	}
	a, size := s.stateOf(&services{}).asked(t, "?service=default/"+strings.Repeat("name", 12)+"-0")
	if size > allocstate.MaxBytes {
		t.Errorf("the answer has %d bytes", size)
	}
	if waiting, claims := len(a.Waiting)+a.WaitingLeftOut, len(a.Claims)+a.ClaimsLeftOut; waiting != n || claims != n/2 {
		t.Errorf("the answer counts %d waiting Services and %d claims, want %d and %d", waiting, claims, n, n/2)
	}
	if a.Service == nil || a.Service.Waiting == nil || len(a.Service.Waiting.Groups) != mostGroups {
		t.Errorf("the requested Service is shown as %+v", a.Service)
	}
}

func TestStateRefusesUnknownQueries(t *testing.T) {
	server := newFixture(t).stateOf(&services{})
	for _, tt := range []struct {
		method, query string
		want          int
	}{
		{http.MethodGet, "?ip=nonsense", http.StatusBadRequest},
		{http.MethodPost, "", http.StatusMethodNotAllowed},
	} {
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, httptest.NewRequest(tt.method, allocstate.Path+tt.query, nil))
		if answer.Code != tt.want {
			t.Errorf("%s %s: %d", tt.method, tt.query, answer.Code)
		}
	}
}
