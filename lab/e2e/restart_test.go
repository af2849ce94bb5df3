package e2e

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

// Promise: an agent that restarts while the API server is away is heard by the others, so they
// do not count its node as lost. It is a candidate for nothing until it has read the Services,
// and the addresses on its node stay.

func TestAnAgentThatRestartsWithoutTheAPIServerIsHeard(t *testing.T) {
	w := newWorld(t)
	segment, outside := []string{"node-1", "node-2"}, []string{"node-3", "node-4"}
	for _, n := range segment {
		w.replaceAgent(n) // the kubelet restarts the container of a new pod without a pause
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
		s.until(patience, observer+" takes the restarted agents for candidates for nothing", func() bool {
			v, err := w.viewOf(observer)
			return err == nil && !slices.ContainsFunc(segment, func(n string) bool { return v.networks(n) != 0 })
		})
	}
	t.Logf("heard within %s", time.Since(killed).Round(100*time.Millisecond))
	s.rest(patience)
	s.stays(holder)
	resume()
	w.freshAllocator() // the old one may have ended when it could not renew its Lease
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

// view is what the agent of a node knows of the others, as its /state shows it.
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
	text, err := lab.Exec(w.ctx, node, "curl", "--silent", "--fail", "--max-time", "10", "http://127.0.0.1:7472/state")
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal([]byte(text), &v)
}

// hears reports whether the agent hears that of another node, and has lost it since.
func (v view) hears(node string, since time.Time) bool {
	for _, m := range v.More.Gossip.Members {
		if m.Node == node {
			return m.State == "alive" && m.Since.After(since)
		}
	}
	return false
}

// networks returns for how many networks the agent takes another node for a candidate, or -1
// if that node is no member.
func (v view) networks(node string) int {
	for _, m := range v.Peers.Members {
		if m.Node == node {
			return len(m.Subnets)
		}
	}
	return -1
}
