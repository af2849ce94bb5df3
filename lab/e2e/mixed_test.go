package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/lab/internal/build"
	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/product"
)

// Promise: agents of two adjacent versions work together. A rollout of a large cluster takes hours,
// and nodes may fail during this time.

// takeover is the allowance when a node loses its power during an upgrade: a second.
var takeover = loss{probes: 100, silence: time.Second, cut: true}

// TestNodesOfBothVersionsFailOverDuringAnUpgrade runs agents of an earlier commit on half of
// the nodes. UPGRADE_FROM names the commit. By default, it is the commit before the last change.
func TestNodesOfBothVersionsFailOverDuringAnUpgrade(t *testing.T) {
	w := newWorld(t)
	image := w.earlierAgent()
	earlier := map[string]bool{"node-1": true, "node-3": true} // each segment has both kinds
	for node := range earlier {
		w.runAgent(node, image)
	}
	s := watchLocal(w)
	kinds := map[bool]bool{}
	for range 2 {
		holder := s.holder()
		kinds[earlier[holder]] = true
		t.Logf("%s holds the addresses, and runs an agent of the earlier commit: %t", holder, earlier[holder])
		s.begin()
		w.crash(holder)
		s.elsewhere(holder)
		s.rest(patience)
		s.end(takeover)
		lab.boot(t, holder)
		w.agentReady(holder)
		s.elsewhere(holder) // a node that comes back takes no address
	}
	if len(kinds) != 2 {
		t.Error("the node that failed ran agents of the same commit both times")
	}
}

// earlier writes the source of the earlier commit.
func (w *world) earlier() (tree product.Tree, commit string) {
	w.t.Helper()
	commit, err := lab.tree.Before(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Logf("the earlier commit is %s", commit)
	tree = product.Tree{Root: w.t.TempDir(), Log: lab.tree.Log}
	if err := lab.tree.Checkout(w.ctx, commit, tree.Root); err != nil {
		w.t.Fatal(err)
	}
	return tree, commit
}

// earlierAgent builds the agent of the earlier commit and returns its image.
func (w *world) earlierAgent() (image string) {
	w.t.Helper()
	tree, commit := w.earlier()
	program := filepath.Join(tree.Root, "lbnodeagent-of-before")
	if err := build.Program(w.ctx, tree.Root, "./cmd/lbnodeagent", program); err != nil {
		w.t.Fatal(err)
	}
	image = product.Repository + "/lbnodeagent:before-" + commit[:min(len(commit), 12)]
	if _, err := lab.AddImage(w.ctx, image, program); err != nil {
		w.t.Fatal(err)
	}
	return image
}

// runAgent runs another image of the agent on a node until the test ends.
func (w *world) runAgent(node, image string) {
	w.t.Helper()
	pod := w.readyPod("lbnodeagent", node)
	before := agentIn(pod)
	kubectl(w, "set", "image", "--namespace", product.Namespace, "pod/"+pod.Name, "lbnodeagent="+image)
	w.t.Cleanup(func() { w.replaceAgent(node) })
	w.until(2*patience, "the agent on "+node+" runs another image", func() bool {
		p, ok := w.productPod("lbnodeagent", node)
		return ok && agentIn(p) != before
	})
}

// agentsStay makes an installation change the DaemonSet of the agents, but none of their pods.
var agentsStay = []string{"lbnodeagent.updateStrategy.type=OnDelete", "lbnodeagent.updateStrategy.rollingUpdate=null"}

// TestVersionsOfAllocatorAndAgentsMix rolls the product back to an earlier commit and upgrades it
// again. Both times, the allocator comes first and the agents follow. Clients work all the time. In
// each state, new Services get addresses and are reached, and those of the last state can go.
func TestVersionsOfAllocatorAndAgentsMix(t *testing.T) {
	w := newWorldFor(t, 10*time.Minute)
	before, _ := w.earlier()
	t.Cleanup(func() {
		if err := lab.install(); err != nil {
			t.Error(err)
		}
	})
	s := serve(w, withoutBFD) // this machine may not run the router for a second
	w.steady()
	var made []string
	for _, step := range []struct {
		name   string
		tree   product.Tree
		agents []string
	}{
		{"the allocator is of the commit before", before, agentsStay},
		{"the agents are of the commit before too", before, []string{oneByOne}},
		{"the allocator is of this commit", lab.tree, agentsStay},
		{"the agents are of this commit too", lab.tree, []string{oneByOne}},
	} {
		agents := w.versions("allocator") // the agents were of the same version
		s.losesNothing(step.name, func() {
			if err := step.tree.Install(w.ctx, lab, lab.Kubeconfig(), slices.Concat(lab.World().Values, step.agents)...); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		})
		if step.agents[0] == oneByOne {
			agents = w.versions("allocator")
		}
		if got := w.versions("lbnodeagent"); !slices.Equal(got, agents) {
			t.Errorf("%s: the agents have the versions %v, want %v", step.name, got, agents)
		}
		made = w.replaceServices(made)
	}
}

// versions returns the tags of the images of a component's pods.
func (w *world) versions(component string) (tags []string) {
	w.t.Helper()
	for _, p := range w.podsOf(component) {
		if p.DeletionTimestamp == nil {
			_, tag, _ := strings.Cut(p.Spec.Containers[0].Image, ":")
			tags = append(tags, tag)
		}
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}

// replaceServices makes a Service with local addresses and one with remote addresses, and waits until
// clients reach them. Then it removes the old ones. It returns the names of the new ones.
func (w *world) replaceServices(old []string) (names []string) {
	w.t.Helper()
	for _, group := range []string{"local", "remote"} {
		name := fmt.Sprintf("%s-%d", group, time.Now().UnixMilli())
		names = append(names, name)
		w.apply(service(name, group))
		addresses := w.addresses(name, families())
		if group == "remote" {
			w.everywhere(addresses...)
		}
		w.answers(addresses...)
	}
	for _, name := range old {
		svc := w.service(name)
		if err := w.Delete(w.ctx, svc); err != nil {
			w.t.Fatal(err)
		}
		for _, a := range kube.Addresses(svc) {
			w.until(patience, "no node carries "+a.String(), func() bool { return len(w.holders(a)) == 0 })
		}
	}
	return names
}
