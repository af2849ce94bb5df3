package allocate

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

	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/allocate/backends"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// stateOf returns the state server of s, as the leader has it.
func (s *fixture) stateOf(services *services) *stateServer {
	elected := make(chan struct{})
	close(elected)
	lock, _, _ := candidate(nil)
	lock.leading, lock.holder = true, "me"
	return &stateServer{allocations: s.allocations, services: services, states: func() map[string]backends.State { return nil }, leader: lock, elected: elected}
}

// asked returns the answer to a request.
func (s *stateServer) asked(t *testing.T) (a allocstate.State, size int) {
	t.Helper()
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, allocstate.Path, nil))
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
		now := clusterState{}
		now.Config.Groups.Usable = []groups.Group{group(t, "default", "192.0.2.2-192.0.2.2"), backedBox}
		s.change(now)
		s.gets(s.wants("holder"), "192.0.2.2")
		s.gets(s.wants("waiter"), "")
		s.gets(s.wants("boxed", inGroup("box")), "")
		answerEach(s.allocations, takeClaims(s.allocations, "box"), refusal(ipam.KindExhausted, "all are in use"))
		loop := &services{}
		loop.memories.delay(types.NamespacedName{Namespace: "default", Name: "holder"}, delayed{"another controller changes it", time.Now().Add(time.Minute)})

		a, _ := s.stateOf(loop).asked(t)
		got := fmt.Sprintln(a.Format, a.Identity, a.Leader, a.Leading, a.Complete, a.Services)
		for _, w := range a.Waiting {
			got += fmt.Sprintln(w.Service, w.Since.Equal(time.Now()), w.Reason, w.Message)
		}
		for _, c := range a.Claims {
			got += fmt.Sprintln(c.Group, c.Family, c.Services, c.Phase, c.Failure)
		}
		for _, d := range a.Delayed {
			got += fmt.Sprintln(d.Service, d.Why, d.Until.After(time.Now()), d.Holds)
		}
		if want := `2 me me true true 3
default/waiter true Exhausted pool "default" exhausted: no available addresses for default/waiter (IPv4)
default/boxed true Exhausted pool "box" exhausted: no available addresses for default/boxed (IPv4): all are in use
box IPv4 [default/boxed] refused all are in use
default/holder another controller changes it true [192.0.2.2]
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
		a, _ := s.stateOf(&services{}).asked(t)
		if len(a.Claims) != 1 || a.Claims[0].Phase != string(want) || a.Claims[0].Address.String() != "203.0.113.7" {
			t.Errorf("claims are %+v; want %s", a.Claims, want)
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
	a, _ := server.asked(t)
	if a.Leading || a.Leader != "allocator-2" || a.Identity != "me" || len(a.Waiting) > 0 {
		t.Errorf("the answer is %+v", a)
	}
}

func TestStateIsBounded(t *testing.T) {
	s := newFixture(t, backedBox)
	const n = 2*mostListed + 20
	long := strings.Repeat("name", 12)
	for i := range n {
		s.gets(s.wants(fmt.Sprintf("%s-%d", long, i), inGroup([]string{strings.Repeat("typo", 15), "box"}[i%2])), "")
	}
	a, size := s.stateOf(&services{}).asked(t)
	if size > allocstate.MaxBytes {
		t.Errorf("the answer has %d bytes", size)
	}
	if len(a.Waiting) != mostListed || a.WaitingLeftOut != n-mostListed || len(a.Claims) != mostListed || a.ClaimsLeftOut != n/2-mostListed {
		t.Errorf("the answer has %d waiting Services, %d left out, and %d claims, %d left out", len(a.Waiting), a.WaitingLeftOut, len(a.Claims), a.ClaimsLeftOut)
	}
}

func TestStateIsOnlyRead(t *testing.T) {
	answer := httptest.NewRecorder()
	newFixture(t).stateOf(&services{}).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, allocstate.Path, nil))
	if answer.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST is answered by %d", answer.Code)
	}
}
