package allocate_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/allocate"
	"purelb.io/purelb/internal/testing/apitest"
)

func withBGP(o *allocate.Options) { o.BGP = true }

// bgpConfig returns a BGPConfiguration with a neighbor. change may change it.
func (w *world) bgpConfig(name string, change func(*bgpv1.BGPConfiguration)) *bgpv1.BGPConfiguration {
	c := &bgpv1.BGPConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace}}
	c.Spec.Global.ASN = 65000
	c.Spec.Neighbors = []bgpv1.Neighbor{{Config: bgpv1.NeighborConfig{NeighborAddress: "192.0.2.1", PeerConfig: bgpv1.PeerConfig{PeerASN: 65001}}}}
	if change != nil {
		change(c)
	}
	w.create(c)
	return c
}

// ready waits until the condition Ready of c is want.
func (w *world) ready(c *bgpv1.BGPConfiguration, want string) {
	w.Helper()
	w.soon(func() error {
		now := fetch(w, c)
		got := saying(now.Status.Conditions, bgpv1.ConditionReady)
		if got != want || now.Status.ObservedGeneration != now.Generation {
			return fmt.Errorf("%s has generation %d, and its condition for generation %d is %q, want %q", c.Name, now.Generation, now.Status.ObservedGeneration, got, want)
		}
		return nil
	})
}

const wellOnNodes = "True ReconcileSuccess: the configuration is valid; the BGPNodeStatus of each node says what is in effect there"

func TestBGPConfigurationStatusHoldsForAllNodes(t *testing.T) {
	w := newWorld(t)
	w.allocator(withBGP)
	c := w.bgpConfig("default", nil)
	other := w.bgpConfig("other", nil)
	w.ready(c, wellOnNodes)
	w.ready(other, "False NotInEffect: nodes use the BGPConfiguration default")
	w.patch(c, `{"spec": {"neighbors": [{"config": {"neighborAddress": "192.0.2.1", "peerGroup": "none"}}]}}`)
	w.ready(c, `False ConfigurationInvalid: spec.neighbors[0].config.peerGroup: there is no group "none" in spec.peerGroups`)
	w.remove(fetch(w, c))
	w.ready(other, wellOnNodes)
	if n := fetch(w, other).Status.NeighborCount; n != 1 {
		t.Errorf("the status counts %d neighbors", n)
	}
}

// What conflicts depends on the labels of the nodes.
func TestBGPConfigurationsNameTheirConflicts(t *testing.T) {
	w := newWorld(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	w.create(node)
	w.allocator(withBGP)
	older := w.bgpConfig("default", nil)
	w.ready(older, wellOnNodes)
	younger := w.bgpConfig("rack-a", func(c *bgpv1.BGPConfiguration) {
		c.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "a"}}
		c.Spec.Global.ASN = 65009
	})
	w.ready(younger, "False NotInEffect: spec.nodeSelector matches none of the 1 nodes")
	w.patch(node, `{"metadata": {"labels": {"rack": "a"}}}`)
	w.ready(younger, "False ConfigurationInvalid: spec.global.asn: default says otherwise and is older, so nothing of this BGPConfiguration "+
		"is in effect on nodes that both select: write the same, or let them select different nodes")
	w.ready(older, wellOnNodes)
}

func TestBGPConfigurationsOfFurtherNamespacesHaveAStatus(t *testing.T) {
	w := newWorld(t)
	further := apitest.Namespace(t)
	w.allocator(withBGP, func(o *allocate.Options) { o.BGPNamespaces = []string{further} })
	c := w.bgpConfig("default", func(c *bgpv1.BGPConfiguration) {
		c.Namespace = further
		c.Spec.Neighbors[0].Config.AuthPasswordSecretRef = &bgpv1.SecretKeyRef{Name: "bgp", Key: "password"}
	})
	w.ready(c, "False ConfigurationInvalid: spec.neighbors[0].config.authPasswordSecretRef: secret "+further+"/bgp is not read, only those of "+w.namespace+
		" are: move the BGPConfiguration and its Secret there")
	w.bgpConfig("default", nil)
	w.ready(c, "False NotInEffect: nodes use the BGPConfiguration default")
}

func TestOlderFinalizerDoesNotBlockDeletion(t *testing.T) {
	w := newWorld(t)
	w.allocator(withBGP)
	c := w.bgpConfig("default", func(c *bgpv1.BGPConfiguration) {
		c.Finalizers = []string{"bgp.purelb.io/finalizer", "example.org/theirs"}
	})
	w.ready(c, wellOnNodes)
	if all := fetch(w, c).Finalizers; len(all) != 2 {
		t.Errorf("a configuration that is not being deleted has the finalizers %v", all)
	}
	w.remove(fetch(w, c))
	w.until(func() bool { return strings.Join(fetch(w, c).Finalizers, " ") == "example.org/theirs" })
	w.patch(c, `{"metadata": {"finalizers": null}}`)
}

func TestBGPStatusIsWrittenOnceWithoutPassword(t *testing.T) {
	w := newWorld(t)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bgp", Namespace: w.namespace}, Data: map[string][]byte{"password": []byte(strings.Repeat("hush", 30))}})
	c := w.bgpConfig("default", func(c *bgpv1.BGPConfiguration) {
		c.Spec.Neighbors[0].Config.AuthPasswordSecretRef = &bgpv1.SecretKeyRef{Name: "bgp", Key: "password"}
	})
	a := w.allocator(withBGP)
	w.ready(c, "False ConfigurationInvalid: spec.neighbors[0].config.authPasswordSecretRef: the password has 120 bytes, and the kernel takes 80: make it shorter")
	said := fetch(w, c)
	if text := fmt.Sprint(said.Status) + a.log.String(); strings.Contains(text, "hush") {
		t.Error(text)
	}
	a.stop()
	w.allocator(withBGP)
	other := w.bgpConfig("other", nil)
	w.ready(other, "False NotInEffect: nodes use the BGPConfiguration default")
	if now := fetch(w, c); now.ResourceVersion != said.ResourceVersion {
		t.Errorf("a second allocator wrote %+v over %+v", now.Status, said.Status)
	}
}
