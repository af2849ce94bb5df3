package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

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

// earlierAgent builds the agent of the earlier commit and returns its image.
func (w *world) earlierAgent() (image string) {
	w.t.Helper()
	commit := os.Getenv("UPGRADE_FROM")
	if commit == "" {
		var err error
		if commit, err = lab.tree.Before(w.ctx); err != nil {
			w.t.Fatal(err)
		}
	}
	dir := w.t.TempDir()
	if err := lab.tree.Checkout(w.ctx, commit, dir); err != nil {
		w.t.Fatal(err)
	}
	program := filepath.Join(dir, "lbnodeagent-of-before")
	build := exec.CommandContext(w.ctx, "go", "build", "-ldflags", "-s -w", "-o", program, "./cmd/lbnodeagent")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		w.t.Fatalf("build the agent of %s: %v\n%s", commit, err, out)
	}
	image = product.Repository + "/lbnodeagent:before-" + commit[:min(len(commit), 12)]
	if _, err := lab.AddImage(image, program); err != nil {
		w.t.Fatal(err)
	}
	w.t.Logf("the earlier commit is %s", commit)
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
