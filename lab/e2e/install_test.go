//go:build install

package e2e

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/lab/probe"
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
	s := serve(w)
	marked := w.dummies()
	s.losesNothing("helm upgrade", func() {
		after.define()
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

// kinds are the objects that belong to the custom resources of the product. Helm never removes them.
var kinds = []string{"CustomResourceDefinition/", "APIService/", "BGPNodeStatus/", "ServiceGroup/", "LBNodeAgent/", "BGPConfiguration/"}

// replaceTree removes the product of the tree, and installs it again at the end of the test.
func (w *world) replaceTree() {
	w.t.Helper()
	// The rights are removed too, and the last agent has no peer for its handover.
	w.expect("departed", "gossipKeyMissing", "configProblem", "peerSpeaksAnotherVersion")
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

// served is a Service with local addresses and a Service with remote addresses. Clients use both.
type served struct {
	*watched
	remote []netip.Addr
}

// serve makes the Services and waits until clients reach all addresses.
func serve(w *world) *served {
	w.t.Helper()
	w.apply(groups, peering(withBFD))
	w.sessions()
	s := &served{watched: watchLocal(w)}
	w.apply(service("far", "remote"))
	s.remote = w.addresses("far", families())
	w.everywhere(s.remote...)
	w.answers(s.remote...)
	return s
}

// losesNothing fails the test if a client loses a datagram or a connection during change.
func (s *served) losesNothing(name string, change func()) {
	s.t.Helper()
	began := time.Now()
	s.everywhere(s.remote...)
	s.begin()
	far := s.spray(s.remote)
	lines := len(s.lines)
	for _, a := range s.remote {
		line, err := probe.Dial(s.ctx, lab.Netns("client"), netip.AddrPortFrom(a, 81), 50*time.Millisecond)
		if err != nil {
			s.t.Fatalf("open a connection to %s: %v", a, err)
		}
		s.lines = append(s.lines, line)
	}
	holder := s.holder()
	change()
	time.Sleep(3 * time.Second) // a late loss counts too
	for i, a := range s.remote {
		if talk := s.lines[lines+i].Stop(patience); talk.Broken != nil || talk.Returned < talk.Said {
			s.t.Errorf("%s: the connection to %s did not last: %s", name, a, talk)
		}
	}
	lost, sent := far.lost()
	if lost > 0 {
		s.t.Errorf("%s: %d of %d datagrams to remote addresses have no answer", name, lost, sent)
	}
	s.stays(holder)
	s.end(nothing)
	s.t.Logf("%s: %s; %d of %d datagrams to remote addresses were lost", name, time.Since(began).Round(time.Second), lost, sent)
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
