package shutdown

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/process"
	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }

// cluster is a fresh namespace of a real API server, with a Node and a DaemonSet that has a pod on
// it.
type cluster struct {
	*testing.T
	config          *rest.Config
	core            kubernetes.Interface
	namespace, node string
	pod             *corev1.Pod
}

func newCluster(t *testing.T) cluster {
	t.Helper()
	t.Parallel()
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
	expect.NoError(t, err)
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
	expect.NoError(t, err)
	return c
}

// as returns a client for a user. "" is a user with all rights.
func (c cluster) as(user string) kubernetes.Interface {
	c.Helper()
	config := rest.CopyConfig(c.config)
	config.Impersonate.UserName = user
	client, err := kubernetes.NewForConfig(config)
	expect.NoError(c, err)
	return client
}

// reader returns a Reader of the pod, with a change.
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
	if got := r.ending(c.Context(), 40*time.Second, 0); got.Cause != want { // the API server may be slow
		c.Errorf("%s: got %s because %q, want %s", what, got.Cause, got.Reason, want)
	}
}

// eventually waits until is returns true. It asks again and again: a Reader signals nothing.
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

func TestCauseIsReadFromTheAPIServer(t *testing.T) {
	c := newCluster(t)
	r := c.reader(c.core, nil)
	c.expect("the pod is not deleted", r, ending.Restart)
	c.expect("another pod has the name", c.reader(c.core, func(r *Reader) { r.UID = "another" }), ending.Replaced)
	c.expect("the pod has no name", c.reader(c.core, func(r *Reader) { r.Pod = "" }), ending.Unknown)
	c.expect("the node is gone", c.reader(c.core, func(r *Reader) { r.Node = "no-node" }), ending.Uninstalled)
	away, err := kubernetes.NewForConfig(&rest.Config{Host: "https://127.0.0.1:1"})
	expect.NoError(t, err)
	powerless := c.as("nobody")
	c.expect("the process never had the right to read", c.reader(powerless, nil), ending.Unknown)
	run(t, r.Run)
	eventually(t, "the pod has been read", func() bool { return r.set.Load() != nil })
	after := func(client kubernetes.Interface) *Reader {
		return c.reader(client, func(o *Reader) { o.set.Store(r.set.Load()); o.deleted.Store(r.deleted.Load()) })
	}
	c.expect("the right is gone, and the DaemonSet exists", after(powerless), ending.Unknown)
	seen := c.reader(powerless, func(r *Reader) { r.NodeDeleted = func() bool { return true } })
	c.expect("the right and the node are gone", seen, ending.Uninstalled)
	c.expect("the API server is away", after(away), ending.Unknown)

	stopping := &Machine{both: make(chan struct{})}
	close(stopping.both)
	onMachine := func(client kubernetes.Interface) *Reader {
		return c.reader(client, func(r *Reader) { r.Machine = stopping })
	}
	c.expect("the machine goes down", onMachine(c.core), ending.NodeDown)
	c.expect("the machine goes down, and the API server is away", onMachine(away), ending.NodeDown)

	patchNode := func(patch string) {
		_, err := c.core.CoreV1().Nodes().Patch(t.Context(), c.node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		expect.NoError(t, err)
	}
	patchNode(`{"spec":{"unschedulable":true}}`)
	c.expect("the node is cordoned", r, ending.Drained)
	patchNode(`{"spec":{"unschedulable":false,"taints":null}}`)
	expect.NoError(t, c.core.CoreV1().Pods(c.namespace).Delete(t.Context(), c.pod.Name, metav1.DeleteOptions{}))
	c.expect("the pod is deleted", r, ending.Replaced)

	sets := c.core.AppsV1().DaemonSets(c.namespace)
	set, err := sets.Get(t.Context(), "lbnodeagent", metav1.GetOptions{})
	expect.NoError(t, err)
	set.Spec.Template.Spec.Containers[0].Image = "agent:new"
	if _, err := sets.Update(t.Context(), set, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.expect("a new revision is rolled out", r, ending.Rollout)

	expect.NoError(t, sets.Delete(t.Context(), set.Name, metav1.DeleteOptions{}))
	c.expect("the DaemonSet is deleted", r, ending.Uninstalled)
	eventually(t, "the deletion has been seen", r.deleted.Load)
	c.expect("the DaemonSet is deleted, and the right is gone", after(powerless), ending.Uninstalled)
	c.expect("the DaemonSet is deleted, and the API server is away", after(away), ending.Unknown)
	now := int64(0)
	expect.NoError(t, c.core.CoreV1().Pods(c.namespace).Delete(t.Context(), c.pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	c.expect("the DaemonSet and the pod are gone", r, ending.Uninstalled)
}

// This does the same as kubectl delete --cascade=orphan and kubectl create, because this API server
// has no controllers.
func TestRecreatedDaemonSetIsNotDeleted(t *testing.T) {
	c := newCluster(t)
	r := c.reader(c.core, nil)
	run(t, r.Run)
	eventually(t, "the pod has been read", func() bool { return r.set.Load() != nil })
	sets := c.core.AppsV1().DaemonSets(c.namespace)
	set, err := sets.Get(t.Context(), "lbnodeagent", metav1.GetOptions{})
	expect.NoError(t, err)
	ownedBy := func(owners ...metav1.OwnerReference) {
		t.Helper()
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": owners}})
		expect.NoError(t, err)
		if _, err := c.core.CoreV1().Pods(c.namespace).Patch(t.Context(), c.pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ownedBy()
	expect.NoError(t, sets.Delete(t.Context(), set.Name, metav1.DeleteOptions{}))
	eventually(t, "the deletion has been seen", r.deleted.Load)
	c.expect("the pod remains, and its container restarts", r, ending.Restart)

	set.UID, set.ResourceVersion = "", ""
	set, err = sets.Create(t.Context(), set, metav1.CreateOptions{})
	expect.NoError(t, err)
	c.expect("there is a new DaemonSet, and the container restarts", r, ending.Restart)
	yes := true
	ownedBy(metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: set.Name, UID: set.UID, Controller: &yes})
	set.Status.NumberReady = 1
	if _, err := sets.UpdateStatus(t.Context(), set, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the reader sees that the new DaemonSet owns the pod", func() bool { return !r.deleted.Load() })
	c.expect("the new DaemonSet owns the pod", r, ending.Restart)
	refused := c.reader(c.as("nobody"), func(o *Reader) { o.set.Store(r.set.Load()); o.deleted.Store(r.deleted.Load()) })
	c.expect("the new DaemonSet owns the pod, and the right is gone", refused, ending.Unknown)
	expect.NoError(t, sets.Delete(t.Context(), set.Name, metav1.DeleteOptions{}))
	eventually(t, "the deletion of the new DaemonSet has been seen", r.deleted.Load)
	c.expect("the new DaemonSet is deleted", r, ending.Uninstalled)
}

// script is an API server whose answers change with time.
type script struct {
	// asked counts the requests.
	asked *atomic.Int32
	began time.Time
	// objects are the versions of an object of each kind, with their times. The last version that
	// is due counts.
	objects map[string][]scene
	// slow is how long the answers for a kind take.
	slow map[string]time.Duration
}

type scene struct {
	after  time.Duration
	object runtime.Object // nil means that the object does not exist
}

const never = time.Hour

func (s script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	path := strings.Split(r.URL.Path, "/")
	kind := path[len(path)-2]
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(s.slow[kind]):
	}
	answer, code := runtime.Object(nil), http.StatusOK
	for _, one := range s.objects[kind] {
		if time.Since(s.began) >= one.after {
			answer = one.object
		}
	}
	if answer == nil {
		code, answer = http.StatusNotFound, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}, nil
}

// podReader returns a Reader of the pod lbnodeagent-x on node-a with this API server.
func podReader(t *testing.T, api http.RoundTripper, log *slog.Logger) *Reader {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://api", Transport: api, QPS: -1})
	expect.NoError(t, err)
	return &Reader{
		Core: client.CoreV1().RESTClient(), Apps: client.AppsV1().RESTClient(),
		Namespace: "purelb", Pod: "lbnodeagent-x", UID: "pod", Node: "node-a", Log: log,
	}
}

func TestCauseIsKnownInTime(t *testing.T) {
	yes := true
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: "lbnodeagent-x", UID: "pod", Labels: map[string]string{"pod-template-generation": "1"}, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "lbnodeagent", UID: "set", Controller: &yes},
			}},
		}
		change(p)
		return p
	}
	goesOn := func(*corev1.Pod) {}
	goes := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	disrupted := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet}}
	}
	set := func(template string) *appsv1.DaemonSet {
		return &appsv1.DaemonSet{
			TypeMeta:   metav1.TypeMeta{Kind: "DaemonSet", APIVersion: "apps/v1"},
			ObjectMeta: metav1.ObjectMeta{Name: "lbnodeagent", UID: "set", Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: template}},
		}
	}
	node := func(ready corev1.ConditionStatus, message string, cordoned bool) *corev1.Node {
		return &corev1.Node{
			TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "node-a"}, Spec: corev1.NodeSpec{Unschedulable: cordoned},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Message: message}}},
		}
	}
	well := node(corev1.ConditionTrue, "", false)
	down := node(corev1.ConditionFalse, "node is shutting down", false)
	current := []scene{{0, set("1")}}
	const half = 500 * time.Millisecond
	type slow = map[string]time.Duration
	for _, tt := range []struct {
		name              string
		pods, sets, nodes []scene
		slow              slow
		want              ending.Cause
		took              time.Duration
	}{
		{"the container restarts", []scene{{0, pod(goesOn)}}, current, []scene{{0, well}}, nil, ending.Restart, openFor - lookAgain},
		{"the kubelet ends the container, then reports the shutdown of the node", []scene{{0, pod(goesOn)}}, current, []scene{{0, well}, {half, down}}, nil, ending.NodeDown, half + lookAgain},
		{"the kubelet ends the container, then reports the end of the pod", []scene{{0, pod(goesOn)}, {half, pod(disrupted)}}, current, []scene{{0, well}}, nil, ending.Evicted, half + lookAgain},
		{"the kubelet reports the shutdown too late", []scene{{0, pod(goesOn)}}, current, []scene{{0, well}, {2 * openFor, down}}, nil, ending.Restart, openFor - lookAgain},
		{"a new revision", []scene{{0, pod(goes)}}, []scene{{0, set("2")}}, []scene{{0, well}}, nil, ending.Rollout, 0},
		{"the pod is deleted", []scene{{0, pod(goes)}}, current, []scene{{0, well}}, nil, ending.Replaced, 0},

		{"all answers are slow", []scene{{0, pod(goesOn)}}, current, []scene{{0, well}}, slow{"pods": half, "nodes": half, "daemonsets": half}, ending.Restart, openFor},
		{"the node is not read in time during a rollout", []scene{{0, pod(goes)}}, []scene{{0, set("2")}}, []scene{{0, well}}, slow{"nodes": never}, ending.Rollout, askLimit},
		{"the pod is not read in time on a cordoned node", []scene{{0, pod(goesOn)}}, current, []scene{{0, node(corev1.ConditionTrue, "", true)}}, slow{"pods": never}, ending.Drained, askLimit},
		{"the DaemonSet is not read in time", []scene{{0, pod(goesOn)}}, current, []scene{{0, down}}, slow{"daemonsets": never}, ending.NodeDown, askLimit},
		{"the DaemonSet of a deleted pod is read late", []scene{{0, pod(goes)}}, current, []scene{{0, well}}, slow{"daemonsets": half}, ending.Replaced, askLimit + lookAgain + half},
		{"the API server hangs", []scene{{0, pod(goes)}}, current, []scene{{0, well}}, slow{"pods": never, "nodes": never, "daemonsets": never}, ending.Unknown, openFor},
		{"the DaemonSet of a deleted pod is never read", []scene{{0, pod(goes)}}, current, []scene{{0, well}}, slow{"daemonsets": never}, ending.Unknown, openFor},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				api := script{asked: &atomic.Int32{}, began: began, objects: map[string][]scene{"pods": tt.pods, "daemonsets": tt.sets, "nodes": tt.nodes}, slow: tt.slow}
				got := podReader(t, api, slog.New(slog.DiscardHandler)).Ending(t.Context())
				if took := time.Since(began).Round(lookAgain); got.Cause != tt.want || took != tt.took {
					t.Errorf("got %s because %q after %s, want %s after %s", got.Cause, got.Reason, took, tt.want, tt.took)
				}
				// All nodes may end at the same time.
				if rounds := (api.asked.Load() + 2) / 3; rounds > 7 {
					t.Errorf("the reader made %d requests", rounds)
				}
			})
		})
	}
}

// brokenOff is an API server whose answers end after the headers.
type brokenOff struct{}

func (brokenOff) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: unfinished{r.Context()}, Request: r}, nil
}

// unfinished is the body of an answer that does not come before the end of the request.
type unfinished struct{ context.Context }

func (u unfinished) Read([]byte) (int, error) {
	<-u.Done()
	return 0, u.Err()
}

func (unfinished) Close() error { return nil }

// The requests of the last moment often meet the limit. That is no error for an operator to read.
func TestAnAnswerThatBreaksOffAtTheEndIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		close(ended)
		var lines strings.Builder
		log := process.Logger(&lines, slog.LevelInfo, ended)
		klog.SetSlogLogger(log)
		defer klog.ClearLogger()
		podReader(t, brokenOff{}, log).Ending(t.Context())
		if text := lines.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "departureNotKnown") || !strings.Contains(text, "did not answer all questions within") {
			t.Errorf("want one line, departureNotKnown, and got\n%s", text)
		}
	})
}
