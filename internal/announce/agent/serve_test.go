package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/announce/agentstate"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

// shows returns the answer of /state.
func (w *world) shows(t *testing.T) (text string, s agentstate.State) {
	t.Helper()
	answer := httptest.NewRecorder()
	w.agent.Handler(prometheus.NewRegistry()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/state", nil))
	if err := json.Unmarshal(answer.Body.Bytes(), &s); err != nil {
		t.Fatalf("%v in\n%s", err, answer.Body)
	}
	return answer.Body.String(), s
}

func TestTheStateShowsAddressesAndReasons(t *testing.T) {
	inWorld(t, func(w *world) {
		w.peers.state = "well"
	}, func(w *world) {
		w.kernel.answers["192.0.2.10"] = someMAC
		w.cluster.change(serving(branded("far", "203.0.113.7"), branded("out", "198.51.100.9"), branded("taken", "192.0.2.10"), branded("web", "192.0.2.9")))
		pass(3 * time.Second)
		_, s := w.shows(t)
		got := fmt.Sprintln(s.Node, s.Complete, s.Config, s.Subnets, s.Peers.Trusted, s.Peers.Count, s.More)
		for _, list := range [][]agentstate.Address{s.Here, s.NotHere} {
			for _, a := range list {
				got += fmt.Sprintln(a.Service, a.IP, a.Interface, a.Reason, a.Winner, "-", a.Why, "-", a.Failure)
			}
			got += "\n"
		}
		expect.Equal(t, "state", got, `node-a true purelb/default [192.0.2.0/24 2001:db8::/64] true 1 map[gossip:well]
default/far 203.0.113.7 kube-lb0 announcingNonLocal  - every node announces it, or every node with a ready endpoint where externalTrafficPolicy is Local - 
default/web 192.0.2.9 eth0 electionWon node-a - node-a has it and can keep it - 

default/out 198.51.100.9  noLocalInterface  - this node has no working interface in its network - 
default/taken 192.0.2.10 eth0 electionWon node-a - node-a has the lowest hash of the nodes in its network - 192.0.2.10 on eth0 is answered by another machine, 02:00:00:00:00:07; it is not taken before that stops: if this is no node of the cluster, give it another address, or exclude this one from the pool

`)
		expect.Equal(t, "the format of the state", s.Format, agentstate.Format)
		if len(s.Conflicts) != 1 || s.Conflicts[0].MAC != "02:00:00:00:00:07" || s.Conflicts[0].Here {
			t.Errorf("the conflicts are %+v", s.Conflicts)
		}
	})
}

func TestTheStateHasALimit(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 5000 {
			ip := fmt.Sprintf("203.0.113.%d", i%250)
			if i%2 == 0 {
				ip = fmt.Sprintf("10.0.%d.%d", i/250, i%250)
			}
			w.cluster.snapshot.Services = append(w.cluster.snapshot.Services, branded(fmt.Sprintf("service-%d", i), ip))
		}
		for i := range 2000 {
			w.peers.peers.Members = append(w.peers.peers.Members, election.Member{Node: fmt.Sprintf("another-node-%d", i), Subnets: subnets})
		}
	}, func(w *world) {
		settle()
		text, s := w.shows(t)
		if len(text) > 1<<20 {
			t.Errorf("the state has %d bytes, which is above the limit", len(text))
		}
		if n := len(s.Here) + s.HereLeftOut + len(s.NotHere) + s.NotHereLeftOut; n != 5000 || s.Peers.Count != 2001 {
			t.Errorf("the state counts %d addresses and %d nodes", n, s.Peers.Count)
		}
		w.peers.state = make([]corev1.Service, 100000)
		if text, _ = w.shows(t); len(text) > 1<<20 {
			t.Errorf("with the parts of other packages, the state has %d bytes", len(text))
		}
	})
}

// A full routing table takes seconds to read. The kubelet waits one second for the answer of a
// probe.
func TestServiceAddressesNeedNoObservation(t *testing.T) {
	k := newFakeKernel(ours("eth0", "192.0.2.9/24", 5*time.Minute))
	k.dumpErr = errors.New("read IPv4 routes: the deadline is over")
	services, err := serviceAddresses(k)(t.Context())
	if err != nil || len(services) != 1 || !services[addrOf("192.0.2.9")] {
		t.Errorf("the addresses of Services are %v, %v", services, err)
	}
	if k.looks > 0 {
		t.Error("the agent observes the node")
	}
}

// The number of other addresses has no effect on an answer about some addresses.
func TestTheStateAnswersAboutSomeAddresses(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.cluster.change(serving(branded("far", "203.0.113.7"), branded("out", "198.51.100.9"), branded("web", "192.0.2.9")))
		pass(3 * time.Second)
		ask := func(query string) (int, agentstate.State) {
			answer := httptest.NewRecorder()
			w.agent.Handler(prometheus.NewRegistry()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/state?"+query, nil))
			var s agentstate.State
			if err := json.Unmarshal(answer.Body.Bytes(), &s); err != nil && answer.Code == http.StatusOK {
				t.Fatalf("%v in\n%s", err, answer.Body)
			}
			return answer.Code, s
		}
		code, s := ask("ip=192.0.2.9,198.51.100.9")
		if code != http.StatusOK || len(s.Here) != 1 || s.Here[0].Service != "default/web" || len(s.NotHere) != 1 || s.NotHere[0].Service != "default/out" {
			t.Errorf("the answer is %d with here %+v, not here %+v", code, s.Here, s.NotHere)
		}
		if code, _ := ask("ip=192.0.2.9,web"); code != http.StatusBadRequest {
			t.Errorf("a text that is not an address: the answer is %d", code)
		}
		if code, _ := ask("ip=" + strings.Repeat("192.0.2.9,", 200) + "192.0.2.9"); code != http.StatusOK {
			t.Errorf("the same address many times: the answer is %d", code)
		}
		var many []string
		for i := range agentstate.MaxAddresses + 1 {
			many = append(many, fmt.Sprintf("192.0.2.%d", i))
		}
		if code, _ := ask("ip=" + strings.Join(many[1:], ",")); code != http.StatusOK {
			t.Errorf("as many addresses as allowed: the answer is %d", code)
		}
		if code, _ := ask("ip=" + strings.Join(many, ",")); code != http.StatusBadRequest {
			t.Errorf("more addresses than allowed: the answer is %d", code)
		}
	})
}
