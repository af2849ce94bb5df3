package allocate

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/allocate/backends"
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

func TestStateSaysWhichWritesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFixture(t)
		now := clusterState{}
		now.Config.Groups.Usable = []groups.Group{group(t, "default", "192.0.2.2-192.0.2.2")}
		s.change(now)
		s.gets(s.wants("holder"), "192.0.2.2")
		s.gets(s.wants("waiter"), "")
		loop := &services{}
		loop.memories.delay(types.NamespacedName{Namespace: "default", Name: "holder"}, delayed{"another controller changes it", time.Now().Add(time.Minute)})

		a, _ := s.stateOf(loop).asked(t)
		got := fmt.Sprintln(a.Format, a.Identity, a.Leader, a.Leading, a.Complete, a.Services)
		for _, d := range a.Delayed {
			got += fmt.Sprintln(d.Service, d.Why, d.Until.After(time.Now()), d.Holds)
		}
		if want := `4 me me true true 2
default/holder another controller changes it true [192.0.2.2]
`; got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

func TestStateOfAStandbyNamesTheLeader(t *testing.T) {
	s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.1"))
	s.gets(s.wants("a"), "192.0.2.1")
	s.gets(s.wants("b"), "")
	server := s.stateOf(&services{})
	server.leader.leading, server.leader.holder = false, "allocator-2"
	a, _ := server.asked(t)
	if a.Leading || a.Leader != "allocator-2" || a.Identity != "me" || a.Services > 0 {
		t.Errorf("the answer is %+v", a)
	}
}

func TestStateIsBounded(t *testing.T) {
	const n = mostListed + 20
	loop := &services{}
	for i := range n {
		name := types.NamespacedName{Namespace: "default", Name: fmt.Sprintf("%s-%d", strings.Repeat("name", 12), i)}
		loop.memories.delay(name, delayed{why: strings.Repeat("no", mostText)})
	}
	a, size := newFixture(t).stateOf(loop).asked(t)
	if size > allocstate.MaxBytes {
		t.Errorf("the answer has %d bytes", size)
	}
	if len(a.Delayed) != mostListed || a.DelayedLeftOut != n-mostListed {
		t.Errorf("the answer has %d delayed Services, %d left out", len(a.Delayed), a.DelayedLeftOut)
	}
}

func TestStateIsOnlyRead(t *testing.T) {
	answer := httptest.NewRecorder()
	newFixture(t).stateOf(&services{}).ServeHTTP(answer, httptest.NewRequest(http.MethodPost, allocstate.Path, nil))
	if answer.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST is answered by %d", answer.Code)
	}
}
