package shutdown

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"purelb.io/purelb/internal/apitest"
	"purelb.io/purelb/internal/ending"
)

func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }

// cluster is a fresh namespace of a real API server, with a Node, and a DaemonSet
// that has a pod there.
type cluster struct {
	*testing.T
	config          *rest.Config
	core            kubernetes.Interface
	namespace, node string
	pod             *corev1.Pod
}

func newCluster(t *testing.T) cluster {
	t.Helper()
	c := cluster{T: t, config: apitest.Config(t), namespace: apitest.Namespace(t)}
	c.node, c.core = "node-of-"+c.namespace, c.as("")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.node}}
	if _, err := c.core.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "agent"}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "agent"}}}
	set, err := c.core.AppsV1().DaemonSets(c.namespace).Create(t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "lbnodeagent"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	template := set.Annotations[appsv1.DeprecatedTemplateGeneration]
	if template == "" {
		t.Error("this API server does not count the templates of a DaemonSet")
	}
	spec.NodeName = c.node
	yes, grace := true, int64(30)
	spec.TerminationGracePeriodSeconds = &grace
	c.pod, err = c.core.CoreV1().Pods(c.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "lbnodeagent-x", Labels: map[string]string{"pod-template-generation": template},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: set.Name, UID: set.UID, Controller: &yes}},
		},
		Spec: spec,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// as is a client of the API server for a user, "" for one who may do anything.
func (c cluster) as(user string) kubernetes.Interface {
	c.Helper()
	config := rest.CopyConfig(c.config)
	config.Impersonate.UserName = user
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		c.Fatal(err)
	}
	return client
}

// reader is a Reader of the pod, changed.
func (c cluster) reader(client kubernetes.Interface, change func(*Reader)) *Reader {
	r := &Reader{
		Core: client.CoreV1().RESTClient(), Apps: client.AppsV1().RESTClient(),
		Namespace: c.namespace, Pod: c.pod.Name, UID: string(c.pod.UID), Node: c.node, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(r)
	}
	return r
}

func (c cluster) expect(what string, r *Reader, want ending.Cause) {
	c.Helper()
	if got := r.ending(c.Context()); got.Cause != want { // the API server may be slow
		c.Errorf("%s: got %s because %q, want %s", what, got.Cause, got.Reason, want)
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(40 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 40 s: %s", what)
		}
	}
}

// run runs a part until the test ends.
func run(t *testing.T, part func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestTheEndIsReadFromTheAPIServer(t *testing.T) {
	c := newCluster(t)
	r := c.reader(c.core, nil)
	c.expect("the pod is not deleted", r, ending.Restart)
	c.expect("another pod has the name", c.reader(c.core, func(r *Reader) { r.UID = "another" }), ending.Replaced)
	c.expect("the pod has no name", c.reader(c.core, func(r *Reader) { r.Pod = "" }), ending.Unknown)
	c.expect("the node is gone", c.reader(c.core, func(r *Reader) { r.Node = "no-node" }), ending.Uninstalled)
	away, err := kubernetes.NewForConfig(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	powerless := c.as("nobody")
	c.expect("there never was a right to read", c.reader(powerless, nil), ending.Unknown)
	run(t, r.Run)
	eventually(t, "the pod has been read", func() bool { return r.set.Load() != nil })
	after := func(client kubernetes.Interface) *Reader {
		return c.reader(client, func(o *Reader) { o.set.Store(r.set.Load()); o.deleted.Store(r.deleted.Load()) })
	}
	c.expect("there is no right any more, but a DaemonSet", after(powerless), ending.Unknown)
	seen := c.reader(powerless, func(r *Reader) { r.NodeDeleted = func() bool { return true } })
	c.expect("there is no right any more, and no node", seen, ending.Uninstalled)
	c.expect("the API server is away", after(away), ending.Unknown)

	stopping := &Machine{both: make(chan struct{})}
	close(stopping.both)
	onMachine := func(client kubernetes.Interface) *Reader {
		return c.reader(client, func(r *Reader) { r.Machine = stopping })
	}
	c.expect("the machine goes down", onMachine(c.core), ending.NodeDown)
	c.expect("the machine goes down, and the API server is away", onMachine(away), ending.NodeDown)

	if _, err := c.core.CoreV1().Nodes().Patch(t.Context(), c.node, "application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	c.expect("the node is cordoned", r, ending.Drained)
	if _, err := c.core.CoreV1().Nodes().Patch(t.Context(), c.node, "application/merge-patch+json", []byte(`{"spec":{"unschedulable":false,"taints":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.core.CoreV1().Pods(c.namespace).Delete(t.Context(), c.pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.expect("the pod is deleted", r, ending.Replaced)

	sets := c.core.AppsV1().DaemonSets(c.namespace)
	set, err := sets.Get(t.Context(), "lbnodeagent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	set.Spec.Template.Spec.Containers[0].Image = "agent:new"
	if _, err := sets.Update(t.Context(), set, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.expect("a new revision is rolled out", r, ending.Rollout)

	if err := sets.Delete(t.Context(), set.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.expect("the DaemonSet is deleted", r, ending.Uninstalled)
	eventually(t, "the deletion has been seen", r.deleted.Load)
	c.expect("the DaemonSet is deleted, and there is no right any more", after(powerless), ending.Uninstalled)
	c.expect("the DaemonSet is deleted, and the API server is away", after(away), ending.Unknown)
	now := int64(0)
	if err := c.core.CoreV1().Pods(c.namespace).Delete(t.Context(), c.pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	c.expect("the DaemonSet and the pod are gone", r, ending.Uninstalled)
}

// mute is an API server that never answers.
type mute struct{}

func (mute) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestAnAPIServerThatHangsDoesNotDelayTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api", Transport: mute{}, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		r := &Reader{
			Core: client.CoreV1().RESTClient(), Apps: client.AppsV1().RESTClient(),
			Namespace: "purelb", Pod: "lbnodeagent-x", Node: "node-a", Log: slog.New(slog.DiscardHandler),
		}
		began := time.Now()
		if got := r.Ending(t.Context()); got.Cause != ending.Unknown || time.Since(began) != askLimit {
			t.Errorf("after %s: got %s because %q, want %s", time.Since(began), got.Cause, got.Reason, ending.Unknown)
		}
	})
}
