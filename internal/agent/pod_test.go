package agent

import (
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// daemon makes a DaemonSet and its pod on the node of c.
func (c cluster) daemon() (*appsv1.DaemonSet, *corev1.Pod) {
	c.t.Helper()
	labels := map[string]string{"app": "agent"}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "agent"}}}
	set, err := c.core.AppsV1().DaemonSets(c.namespace).Create(c.t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "lbnodeagent"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	spec.NodeName = c.node
	yes, grace := true, int64(30)
	spec.TerminationGracePeriodSeconds = &grace
	pod, err := c.core.CoreV1().Pods(c.namespace).Create(c.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "lbnodeagent-x", Labels: map[string]string{labelTemplate: set.Annotations[annotationTemplate]},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: set.Name, UID: set.UID, Controller: &yes}},
		},
		Spec: spec,
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return set, pod
}

func TestTheEndOfAnAgentIsReadFromTheAPIServer(t *testing.T) {
	c := newCluster(t)
	set, pod := c.daemon()
	if set.Annotations[annotationTemplate] == "" {
		t.Error("this API server does not count the templates of a DaemonSet")
	}
	expect := func(what string, p *Pod, want Departure) {
		t.Helper()
		if got, why := p.departure(t.Context()); got != want { // the API server may be slow
			t.Errorf("%s: got %d because %q, want %d", what, got, why, want)
		}
	}
	changed := func(change func(*Pod)) *Pod {
		p := &Pod{Client: c.core, Namespace: c.namespace, Name: pod.Name, UID: string(pod.UID), Node: c.node, Log: slog.New(slog.DiscardHandler)}
		change(p)
		return p
	}
	p := changed(func(*Pod) {})
	expect("the pod is not deleted", p, Stays)
	expect("another pod has the name", changed(func(p *Pod) { p.UID = "another" }), Returns)
	expect("nobody knows the pod", changed(func(p *Pod) { p.Name = "" }), Stays)
	expect("the node is gone", changed(func(p *Pod) { p.Node = "no-node" }), Gone)
	away, err := kubernetes.NewForConfig(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	nobody := rest.CopyConfig(c.config)
	nobody.Impersonate.UserName = "nobody"
	powerless, err := kubernetes.NewForConfig(nobody)
	if err != nil {
		t.Fatal(err)
	}
	expect("there never was a right to read", changed(func(p *Pod) { p.Client = powerless }), Stays)
	run(t, p.Run)
	eventually(t, "the pod has been read", func() bool { return p.set.Load() != nil })
	refused := func() *Pod {
		return changed(func(o *Pod) { o.Client = powerless; o.set.Store(p.set.Load()); o.deleted.Store(p.deleted.Load()) })
	}
	expect("there is no right any more, but a DaemonSet", refused(), Stays)
	expect("the API server is away", changed(func(p *Pod) { p.Client = away }), Stays)

	if err := c.core.CoreV1().Pods(c.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("the pod is deleted", p, Returns)

	sets := c.core.AppsV1().DaemonSets(c.namespace)
	if set, err = sets.Get(t.Context(), set.Name, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	set.Spec.Template.Spec.Containers[0].Image = "agent:new"
	if _, err := sets.Update(t.Context(), set, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("a new revision is rolled out", p, Stays)

	if err := sets.Delete(t.Context(), set.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("the DaemonSet is deleted", p, Gone)
	eventually(t, "the deletion has been seen", p.deleted.Load)
	expect("the DaemonSet is deleted, and there is no right any more", refused(), Gone)
	now := int64(0)
	if err := c.core.CoreV1().Pods(c.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	expect("the pod is gone", p, Returns)
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
		p := &Pod{Client: client, Namespace: "purelb", Name: "lbnodeagent-x", Node: "node-a", Log: slog.New(slog.DiscardHandler)}
		began := time.Now()
		if got, why := p.Departure(t.Context()); got != Stays || time.Since(began) != askLimit {
			t.Errorf("after %s: got %d because %q, want %d", time.Since(began), got, why, Stays)
		}
	})
}
