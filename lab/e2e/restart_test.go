package e2e

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

// Promise: the other agents hear an agent that restarts during an outage of the API server. So they
// do not count its node as lost. The node is no candidate until its agent has read the Services, and
// its addresses stay.

func TestARestartedAgentWithoutTheAPIServerIsHeard(t *testing.T) {
	w := newWorld(t)
	segment, outside := []string{"node-1", "node-2"}, []string{"node-3", "node-4"}
	for _, n := range segment {
		w.replaceAgent(n) // in a new pod, the kubelet restarts the container without a pause
	}
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	resume := w.hang()
	killed := time.Now()
	for _, n := range segment {
		if !w.killProcess("lbnodeagent", "PURELB_NODE_NAME="+n) {
			t.Fatalf("no agent runs on %s", n)
		}
	}
	for _, observer := range outside {
		s.until(patience, observer+" hears the restarted agents", func() bool {
			v, err := w.viewOf(observer)
			return err == nil && !slices.ContainsFunc(segment, func(n string) bool { return !v.hears(n, killed) })
		})
		s.until(patience, "for "+observer+", the restarted agents are no candidates", func() bool {
			v, err := w.viewOf(observer)
			return err == nil && !slices.ContainsFunc(segment, func(n string) bool { return v.networks(n) != 0 })
		})
	}
	t.Logf("heard within %s", time.Since(killed).Round(100*time.Millisecond))
	s.rest(patience)
	s.stays(holder)
	resume()
	w.freshAllocator() // the old allocator may have ended because it could not renew its Lease
	for _, n := range segment {
		w.agentReady(n)
		s.until(patience, n+" is a candidate again", func() bool {
			v, err := w.viewOf(outside[0])
			return err == nil && v.networks(n) > 0
		})
	}
	s.rest(patience)
	s.end(nothing)
	s.stays(holder)
}

// view is the part of an agent's /state about the other nodes.
type view struct {
	Peers struct {
		Members []struct {
			Node    string
			Subnets []string
		}
	}
	More struct {
		Gossip struct {
			Members []struct {
				Node, State string
				Since       time.Time
			}
		}
	}
}

func (w *world) viewOf(node string) (v view, err error) {
	text, err := w.fetch(node, "127.0.0.1:7472/state")
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal([]byte(text), &v)
}

// hears reports whether another node is alive for the agent, and became alive after since.
func (v view) hears(node string, since time.Time) bool {
	for _, m := range v.More.Gossip.Members {
		if m.Node == node {
			return m.State == "alive" && m.Since.After(since)
		}
	}
	return false
}

// networks returns the number of networks in which another node is a candidate, or -1 if that node
// is no member.
func (v view) networks(node string) int {
	for _, m := range v.Peers.Members {
		if m.Node == node {
			return len(m.Subnets)
		}
	}
	return -1
}
