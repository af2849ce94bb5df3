//go:build install

package e2e

import (
	"testing"

	"purelb.io/purelb/lab/product"
)

// "make e2e-install" runs these beside TestAnUpgradeFromTheCommitBeforeLosesNothing.

func TestAReleaseIsInstalledByHelmFromItsRegistry(t *testing.T) {
	w := newWorldFor(t, releasing)
	_, now := w.releases()
	w.replaceTree()
	now.helm("install", product.Release, "CHART", "--create-namespace", "--wait", "--timeout", "5m")
	now.runs()
	s := serve(w, withBFD)
	marked := w.dummies()
	if len(marked) != len(lab.Nodes()) {
		t.Errorf("kube-lb0 is on %v, want it on all nodes", marked)
	}

	// While the agents have their rights, each agent deletes its Lease too.
	kubectl(w, "delete", "daemonset", "lbnodeagent", "--namespace", product.Namespace, "--cascade=foreground", "--timeout=2m")
	s.leaves(marked)
	now.helm("uninstall", product.Release, "--wait", "--timeout", "5m")
	w.leavesOnly(append(kinds, "Lease/purelb-allocator", "Secret/purelb-gossip")...)
	w.purge()
	w.leavesOnly()
}

func TestManifestsInstallUpgradeAndRemove(t *testing.T) {
	w := newWorldFor(t, releasing)
	before, after := w.releases()
	w.replaceTree()
	before.define()
	before.manifests()
	s := serve(w, withBFD)
	marked := w.dummies()
	s.losesNothing("kubectl apply", func() {
		after.define()
		after.manifests()
	})
	s.losesNothing("kubectl apply of the release before", before.manifests)
	after.manifests()
	after.run("kubectl", "delete", "-f", after.file("install.yaml"), "--timeout=3m")
	s.leaves(marked)
	w.leavesOnly(kinds...)
	after.run("kubectl", "delete", "-f", after.file("crds.yaml"), "--timeout=2m")
	w.leavesOnly()
}
