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

// Promise: a release is installed by two commands, upgraded and rolled back without loss, and
// removed without a trace. The releases are those of "make release" and "make publish".

// releasing is how long it takes to make two releases on a busy machine.
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

// kinds are what belongs to the kinds of objects of the product. Helm never removes these.
var kinds = []string{"CustomResourceDefinition/", "APIService/", "BGPNodeStatus/", "ServiceGroup/", "LBNodeAgent/", "BGPConfiguration/"}

// replaceTree removes the product that was installed from the tree. When the test ends, it is
// installed again.
func (w *world) replaceTree() {
	w.t.Helper()
	// The rights go with the rest, and the agent that ends last has no peer to tell.
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

// purge removes what an uninstall leaves: the namespace and the kinds of objects.
func (w *world) purge() {
	w.t.Helper()
	kubectl(w, "delete", "namespace", product.Namespace, "--ignore-not-found", "--timeout=2m")
	// The volume of the IPAM server was bound to a claim in that namespace, and binds to no other.
	kubectl(w, "delete", "persistentvolume", "--all", "--timeout=2m")
	kubectl(w, "delete", "customresourcedefinition", "--ignore-not-found", "--timeout=2m",
		"servicegroups.purelb.io", "lbnodeagents.purelb.io", "configs.bgp.purelb.io", "bgpnodestatuses.bgp.purelb.io")
}

// leavesOnly waits until the API server has no object of the product but those whose kind and
// name begin as allowed.
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

// served is a Service with local addresses and one with remote addresses, which clients use.
type served struct {
	*watched
	remote []netip.Addr
}

// serve makes the Services, and waits until clients reach all addresses.
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

// losesNothing fails the test if a client loses a datagram or a connection while change runs.
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
		s.t.Errorf("%s: %d of %d datagrams to remote addresses were not answered", name, lost, sent)
	}
	s.stays(holder)
	s.end(nothing)
	s.t.Logf("%s: %s; %d of %d datagrams to remote addresses were lost", name, time.Since(began).Round(time.Second), lost, sent)
}

// leaves waits until no node has an address of the Services or the interface for remote
// addresses, which goes a moment later. An agent keeps an interface without its alias.
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
