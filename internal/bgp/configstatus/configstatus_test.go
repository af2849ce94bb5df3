package configstatus_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/configstatus"
	"purelb.io/purelb/internal/kube/events"
	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }

// world is an API server, and the namespace in which PureLB is installed.
type world struct {
	testing.TB
	client    client.Client
	namespace string
}

func newWorld(t testing.TB) *world {
	c := apitest.Client(t, clientgoscheme.AddToScheme, bgpv1.AddToScheme)
	return &world{TB: t, client: c, namespace: apitest.Namespace(t)}
}

// running is a running loop, and its log.
type running struct {
	stop func()
	log  expect.Log
}

// loop runs the loop in a manager until the test ends, or until stop.
func (w *world) loop() *running {
	w.Helper()
	r := &running{}
	skip := true // a process makes several managers
	mgr, err := manager.New(apitest.Config(w), manager.Options{
		Scheme: w.client.Scheme(), Metrics: server.Options{BindAddress: "0"}, Controller: ctrlconfig.Controller{SkipNameValidation: &skip},
	})
	expect.NoError(w, err)
	core, err := typedcorev1.NewForConfig(mgr.GetConfig())
	expect.NoError(w, err)
	log := r.log.Logger(slog.LevelInfo)
	recorder := events.New(events.To(core.RESTClient()), corev1.EventSource{Component: "test"}, log)
	expect.NoError(w, mgr.Add(manager.RunnableFunc(recorder.Run)))
	loop, err := configstatus.Loop(w.namespace, log)(mgr, w.client, core.Secrets(w.namespace), recorder)
	expect.NoError(w, err)
	expect.NoError(w, mgr.Add(loop))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		expect.NoError(w, <-ended)
	})
	w.Cleanup(r.stop)
	return r
}

// create creates o until the test ends.
func (w *world) create(o client.Object) {
	w.Helper()
	expect.NoError(w, w.client.Create(context.Background(), o))
	w.Cleanup(func() { expect.NoError(w, client.IgnoreNotFound(w.client.Delete(context.Background(), o))) })
}

func (w *world) patch(o client.Object, patch string) {
	w.Helper()
	expect.NoError(w, w.client.Patch(context.Background(), o, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// soon waits until what returns no error.
func (w *world) soon(what func() error) {
	w.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		late := time.Now().After(deadline)
		err := what()
		switch {
		case err == nil:
			return
		case late:
			w.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// fetch reads c again.
func (w *world) fetch(c *bgpv1.BGPConfiguration) *bgpv1.BGPConfiguration {
	w.Helper()
	expect.NoError(w, w.client.Get(context.Background(), client.ObjectKeyFromObject(c), c))
	return c
}

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
		now := w.fetch(c)
		got := ""
		if ready := meta.FindStatusCondition(now.Status.Conditions, bgpv1.ConditionReady); ready != nil {
			got = fmt.Sprintf("%s %s: %s", ready.Status, ready.Reason, ready.Message)
		}
		if got != want || now.Status.ObservedGeneration != now.Generation {
			return fmt.Errorf("%s has generation %d, and its condition for generation %d is %q, want %q", c.Name, now.Generation, now.Status.ObservedGeneration, got, want)
		}
		return nil
	})
}

// remedy ends the messages of a BGPConfiguration that nodes do not use.
const remedy = ", and only one counts on a node: write all that is for a node into one, or let spec.nodeSelector select different nodes"

const wellOnNodes = "True ReconcileSuccess: the configuration is valid; the BGPNodeStatus of each node says what is in effect there"

func TestBGPConfigurationStatusHoldsForAllNodes(t *testing.T) {
	w := newWorld(t)
	w.loop()
	c := w.bgpConfig("default", nil)
	other := w.bgpConfig("other", nil)
	w.ready(c, wellOnNodes)
	w.ready(other, "False NotInEffect: nodes use the BGPConfiguration default"+remedy)
	w.patch(c, `{"spec": {"neighbors": [{"config": {"neighborAddress": "192.0.2.1", "peerGroup": "none"}}]}}`)
	w.ready(c, `False ConfigurationInvalid: spec.neighbors[0].config.peerGroup: there is no group "none" in spec.peerGroups`)
	expect.NoError(t, w.client.Delete(t.Context(), w.fetch(c)))
	w.ready(other, wellOnNodes)
	if n := w.fetch(other).Status.NeighborCount; n != 1 {
		t.Errorf("the status counts %d neighbors", n)
	}
}

// The labels of the nodes decide which one counts. The loop reads them when a BGPConfiguration changes, and every
// 30 s.
func TestBGPConfigurationsSayThatNodesUseAnother(t *testing.T) {
	w := newWorld(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	w.create(node)
	w.loop()
	standard := w.bgpConfig("default", nil)
	w.ready(standard, wellOnNodes)
	rack := w.bgpConfig("rack-a", func(c *bgpv1.BGPConfiguration) {
		c.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "a"}}
	})
	w.ready(rack, "False NotInEffect: spec.nodeSelector matches none of the 1 nodes")
	w.patch(node, `{"metadata": {"labels": {"rack": "a"}}}`)
	time.Sleep(100 * time.Millisecond)
	w.patch(rack, `{"metadata": {"labels": {"changed": "yes"}}}`)
	w.ready(rack, wellOnNodes)
	w.ready(standard, "False NotInEffect: nodes use the BGPConfiguration rack-a"+remedy)
	w.soon(func() error {
		var all corev1.EventList
		expect.NoError(t, w.client.List(t.Context(), &all, client.InNamespace(w.namespace)))
		for _, e := range all.Items {
			if e.Type == corev1.EventTypeWarning && e.Reason == "NotInEffect" && e.InvolvedObject.UID == standard.UID && strings.HasPrefix(e.Message, "nodes use the BGPConfiguration rack-a") {
				return nil
			}
		}
		return fmt.Errorf("%d events, and none about default", len(all.Items))
	})
}

func TestOlderFinalizerDoesNotBlockDeletion(t *testing.T) {
	w := newWorld(t)
	w.loop()
	c := w.bgpConfig("default", func(c *bgpv1.BGPConfiguration) {
		c.Finalizers = []string{"bgp.purelb.io/finalizer", "example.org/theirs"}
	})
	w.ready(c, wellOnNodes)
	if all := w.fetch(c).Finalizers; len(all) != 2 {
		t.Errorf("a configuration that is not being deleted has the finalizers %v", all)
	}
	expect.NoError(t, w.client.Delete(t.Context(), w.fetch(c)))
	w.soon(func() error {
		if all := strings.Join(w.fetch(c).Finalizers, " "); all != "example.org/theirs" {
			return fmt.Errorf("the finalizers are %s", all)
		}
		return nil
	})
	w.patch(c, `{"metadata": {"finalizers": null}}`)
}

func TestBGPStatusIsWrittenOnceWithoutPassword(t *testing.T) {
	w := newWorld(t)
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "bgp", Namespace: w.namespace}, Data: map[string][]byte{"password": []byte(strings.Repeat("hush", 30))}})
	c := w.bgpConfig("default", func(c *bgpv1.BGPConfiguration) {
		c.Spec.Neighbors[0].Config.AuthPasswordSecretRef = &bgpv1.SecretKeyRef{Name: "bgp", Key: "password"}
	})
	first := w.loop()
	w.ready(c, "False ConfigurationInvalid: spec.neighbors[0].config.authPasswordSecretRef: the password has 120 bytes, and the kernel takes 80: make it shorter")
	said := w.fetch(c)
	if text := fmt.Sprint(said.Status) + first.log.String(); strings.Contains(text, "hush") {
		t.Error(text)
	}
	first.stop()
	w.loop()
	other := w.bgpConfig("other", nil)
	w.ready(other, "False NotInEffect: nodes use the BGPConfiguration default"+remedy)
	if now := w.fetch(c); now.ResourceVersion != said.ResourceVersion {
		t.Errorf("a second loop wrote %+v over %+v", now.Status, said.Status)
	}
}
