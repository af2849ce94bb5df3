//go:build install

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/lab/product"
)

// Promise: two commands install a release. An upgrade and a rollback lose nothing. An uninstall
// leaves nothing behind. The releases are those of "make release" and "make publish".

// releasing is the time to make two releases on a busy machine.
const releasing = 20 * time.Minute

func TestAnUpgradeFromTheCommitBeforeLosesNothing(t *testing.T) {
	w := newWorldFor(t, releasing)
	before, after := w.releases()
	w.replaceTree()

	before.helm("install", product.Release, "CHART", "--create-namespace", "--wait", "--timeout", "5m")
	before.runs()
	s := serve(w, withBFD)
	marked := w.dummies()
	s.losesNothing("helm upgrade", func() {
		after.helm("upgrade", product.Release, "CHART", "--reset-then-reuse-values", "--wait", "--timeout", "5m")
		after.runs()
	})
	s.losesNothing("helm rollback", func() {
		after.helm("rollback", product.Release, "--wait", "--timeout", "5m")
		before.runs()
	})
	after.helm("upgrade", product.Release, "CHART", "--reset-then-reuse-values", "--wait", "--timeout", "5m")
	after.runs()
	after.helm("uninstall", product.Release, "--wait", "--timeout", "5m")
	s.leaves(marked)
	w.leavesOnly(append(kinds, "Lease/purelb-", "Secret/purelb-gossip")...)
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

// kinds are the objects that belong to the custom resources of the product. Helm never removes them.
var kinds = []string{"CustomResourceDefinition/", "APIService/", "BGPNodeStatus/", "ServiceGroup/", "LBNodeAgent/", "BGPConfiguration/"}

// replaceTree removes the product of the tree, and installs it again at the end of the test.
func (w *world) replaceTree() {
	w.t.Helper()
	// The rights are removed too, and the last agent has no peer for its handover.
	w.expect("departed", "Failed to release lease", "gossipKeyMissing", "configProblem", "peerSpeaksAnotherVersion")
	w.expect(withoutAPI...)
	w.t.Cleanup(func() {
		if err := lab.install(); err != nil {
			w.t.Error(err)
		}
		w.apply(groups, peering(withBFD))
	})
	if err := lab.tree.Helm(w.ctx, "uninstall", product.Release, "--kubeconfig", lab.Kubeconfig(), "--namespace", product.Namespace, "--wait"); err != nil {
		w.t.Fatal(err)
	}
	w.purge()
	w.leavesOnly()
}

// purge removes the objects that an uninstall leaves: the namespace and the custom resource
// definitions.
func (w *world) purge() {
	w.t.Helper()
	kubectl(w, "delete", "namespace", product.Namespace, "--ignore-not-found", "--timeout=2m")
	// The volume of the IPAM server was bound to a claim in that namespace. It would bind to no other
	// claim.
	kubectl(w, "delete", "persistentvolume", "--all", "--timeout=2m")
	kubectl(w, "delete", "customresourcedefinition", "--ignore-not-found", "--timeout=2m",
		"servicegroups.purelb.io", "lbnodeagents.purelb.io", "configs.bgp.purelb.io", "bgpnodestatuses.bgp.purelb.io")
}

// leavesOnly waits until all objects of the product in the API server begin, as kind and name, with
// an allowed text.
func (w *world) leavesOnly(allowed ...string) {
	w.t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(time.Second) {
		remains := w.remains()
		left := slices.DeleteFunc(slices.Clone(remains), func(object string) bool {
			return slices.ContainsFunc(allowed, func(a string) bool { return strings.HasPrefix(object, a) })
		})
		if len(left) == 0 {
			w.t.Logf("the API server still has %v", remains)
			return
		}
		if time.Now().After(limit) {
			w.t.Errorf("the API server still has %s", strings.Join(left, ", "))
			return
		}
	}
}

// leaves waits until no node has an address of the Services. Then it waits until no node has the
// interface for remote addresses. Agents keep an interface without their alias.
func (s *served) leaves(marked map[string]string) {
	s.t.Helper()
	for _, node := range lab.powered() {
		s.left(node, append(slices.Clone(s.remote), s.addresses...))
	}
	s.until(patience, "no node has kube-lb0", func() bool {
		for node, alias := range s.dummies() {
			if marked[node] != "" || alias != "" {
				return false
			}
		}
		return true
	})
}
