package speaker

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/bgp/bfd"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/bgp/speaker/cluster"
	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }

// install is a new namespace of a real API server. PureLB is installed in it.
type install struct {
	t         *testing.T
	config    *rest.Config
	namespace string
	core      kubernetes.Interface
	clients   cluster.Clients
}

func newInstall(t *testing.T) install {
	t.Helper()
	c := install{t: t, config: apitest.Config(t), namespace: apitest.Namespace(t)}
	var err error
	if c.core, err = kubernetes.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	if c.clients, err = cluster.NewClients(c.config); err != nil {
		t.Fatal(err)
	}
	return c
}

// node makes a Node with an address, and returns its name.
func (c install) node(name string) string {
	c.t.Helper()
	name = name + "-of-" + c.namespace
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": "1"}}}
	made, err := c.core.CoreV1().Nodes().Create(c.t.Context(), node, metav1.CreateOptions{})
	expect.NoError(c.t, err)
	made.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.10"}}
	if _, err := c.core.CoreV1().Nodes().UpdateStatus(c.t.Context(), made, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	return name
}

// configure creates a BGPConfiguration.
func (c install) configure(name, spec string) {
	c.t.Helper()
	object := configuration(c.t, name, spec)
	object.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: c.namespace}
	expect.NoError(c.t, c.clients.BGP.Post().Namespace(c.namespace).Resource("configs").Body(&object).Do(c.t.Context()).Error())
}

// configured returns the BGPConfiguration with this name, and whether it exists.
func (c install) configured(name string) (object bgpv1.BGPConfiguration, ok bool) {
	c.t.Helper()
	err := c.clients.BGP.Get().Namespace(c.namespace).Resource("configs").Name(name).Do(c.t.Context()).Into(&object)
	if err != nil && !apierrors.IsNotFound(err) {
		c.t.Fatal(err)
	}
	return object, err == nil
}

// password sets the password in the Secret of that name.
func (c install) password(name, value string) {
	c.t.Helper()
	secrets := c.core.CoreV1().Secrets(c.namespace)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"password": []byte(value)}}
	_, err := secrets.Create(c.t.Context(), secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(c.t.Context(), secret, metav1.UpdateOptions{})
	}
	expect.NoError(c.t, err)
}

// service makes the Service web with an address. It goes with the test.
func (c install) service(address string, policy corev1.ServiceExternalTrafficPolicy, annotations map[string]string) {
	c.t.Helper()
	services := c.core.CoreV1().Services(c.namespace)
	svc, err := services.Create(c.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: annotations},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: policy, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	expect.NoError(c.t, err)
	c.t.Cleanup(func() { _ = services.Delete(context.Background(), "web", metav1.DeleteOptions{}) })
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	if _, err := services.UpdateStatus(c.t.Context(), svc, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// nodeStatus is the BGPNodeStatus of a node.
func (c install) nodeStatus(node string) bgpv1.BGPNodeStatus {
	c.t.Helper()
	var object bgpv1.BGPNodeStatus
	err := c.clients.BGP.Get().Resource(cluster.NodeStatuses).Name(node).Do(c.t.Context()).Into(&object)
	if err != nil && !apierrors.IsNotFound(err) {
		c.t.Fatal(err)
	}
	return object
}

// member is a speaker on a node of a cluster, with a fake server, kernel and BFD.
type member struct {
	server *fakeServer
	kernel *fakeKernel
	stop   func()
	log    expect.Log
}

// speak runs a speaker on node until the test ends.
func (c install) speak(node string, change func(*Setup)) *member {
	c.t.Helper()
	m := &member{server: newFakeServer(), kernel: newFakeKernel()}
	setup := Setup{
		Node: node, Namespace: c.namespace, Metrics: "0", Health: "0", StateDir: c.t.TempDir(), Log: slog.New(slog.NewTextHandler(&m.log, nil)),
		lastWrite: time.Minute, // enough for a busy API server
	}
	if change != nil {
		change(&setup)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, c.config, m.server, m.kernel, &fakeBFD{events: make(chan bfd.Event)}, setup)
	}()
	m.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Errorf("the speaker ended with %v", err)
		}
		if c.t.Failed() {
			c.t.Log(m.log.String())
		}
	})
	c.t.Cleanup(m.stop)
	return m
}

// eventuallyIs waits until text returns want.
func eventuallyIs(t *testing.T, what, want string, text func() string) {
	t.Helper()
	var got string
	for deadline := time.Now().Add(60 * time.Second); ; {
		if got = text(); got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after 60 s, %s differs (-want +got)\n%s", what, cmp.Diff(want, got))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

const authenticated = `{global: {asn: 65000}, neighbors: [
	{config: {neighborAddress: 192.0.2.1, peerAsn: 65001, authPasswordSecretRef: {name: bgp, key: password}}}]}`

func TestPasswordsAreReadAndFollowed(t *testing.T) {
	c := newInstall(t)
	node := c.node("a")
	m := c.speak(node, nil)
	c.configure("default", authenticated)
	eventuallyIs(t, "the condition Configured", "False secret "+c.namespace+"/bgp does not exist", func() string {
		return configuredOf(c.nodeStatus(node), "secret "+c.namespace+"/bgp does not exist")
	})
	c.password("bgp", "hush-1")
	eventuallyIs(t, "the session", sessions1+" md5 hush-1", m.server.String)
	c.password("bgp", "hush-2")
	eventuallyIs(t, "the session with another password", sessions1+" md5 hush-2", m.server.String)
	expect.NoError(t, c.core.CoreV1().Secrets(c.namespace).Delete(t.Context(), "bgp", metav1.DeleteOptions{}))
	eventuallyIs(t, "whether the status reports the missing Secret", "true", func() string {
		return fmt.Sprint(strings.Contains(fmt.Sprint(c.nodeStatus(node)), "does not exist: the password that was there before is in use"))
	})
	expect.Equal(t, "the session without the Secret", m.server.String(), sessions1+" md5 hush-2")
	object, _ := c.configured("default")
	if all := fmt.Sprint(c.nodeStatus(node), object.Status); strings.Contains(all, "hush") {
		t.Error(all)
	}
	m.stop()
	if strings.Contains(m.log.String(), "hush") {
		t.Error(m.log.String())
	}
}

// configuredOf returns the condition Configured. Only a part of its message matters.
func configuredOf(s bgpv1.BGPNodeStatus, part string) string {
	for _, c := range s.Status.Conditions {
		if c.Type == bgpv1.ConditionConfigured {
			if strings.Contains(c.Message, part) {
				return string(c.Status) + " " + part
			}
			return string(c.Status) + " " + c.Message
		}
	}
	return ""
}

func TestTheStatusOfANodeFollowsTheSpeaker(t *testing.T) {
	c := newInstall(t)
	node := c.node("a")
	c.configure("default", oneNeighbor)
	m := c.speak(node, nil)
	m.kernel.hold("kube-lb0", "203.0.113.7/32")
	show := func() string {
		s := c.nodeStatus(node).Status
		words := []string{s.RouterID, s.RouterIDSource, fmt.Sprint(s.ASN), fmt.Sprint(s.Healthy)}
		for _, n := range s.Neighbors {
			words = append(words, n.Address, n.State)
		}
		if s.RIB != nil {
			for _, r := range s.RIB.LocalRoutes {
				words = append(words, r.Prefix)
			}
		}
		return strings.Join(words, " ")
	}
	eventuallyIs(t, "the status", "192.0.2.10 node-ipv4 65000 false 192.0.2.1 Idle 203.0.113.7/32", show)
	first := c.nodeStatus(node)
	m.server.change(established("192.0.2.1", 65001))
	eventuallyIs(t, "the status with a session", "192.0.2.10 node-ipv4 65000 true 192.0.2.1 Established 203.0.113.7/32", show)
	now := c.nodeStatus(node)
	if owners := now.OwnerReferences; len(owners) != 1 || owners[0].Kind != "Node" || owners[0].Name != node || owners[0].UID == "" {
		t.Errorf("the owners of the status are %+v, want the node", owners)
	}
	for i, was := range first.Status.Conditions {
		is := now.Status.Conditions[i]
		if same := was.Status == is.Status; same != was.LastTransitionTime.Equal(&is.LastTransitionTime) && same {
			t.Errorf("the condition %s has a new time although it has not changed", is.Type)
		}
	}
	if now.Status.LastUpdated == nil || now.Status.HeartbeatSeconds != 60 {
		t.Errorf("%+v", now.Status)
	}
	eventuallyIs(t, "the events", "NeighborUp RouterIDResolved", func() string {
		events, err := c.core.CoreV1().Events(c.namespace).List(t.Context(), metav1.ListOptions{})
		expect.NoError(t, err)
		found := map[string]bool{}
		for _, e := range events.Items {
			found[e.Reason] = true
		}
		return strings.Join(slices.Sorted(maps.Keys(found)), " ")
	})
	m.stop()
	if s := c.nodeStatus(node).Status; s.Healthy || s.Conditions[0].Reason != "AgentShutdown" {
		t.Errorf("after the end of the speaker, the conditions are %+v", s.Conditions)
	}
}

func TestAStartDuringAnAPIServerOutageUsesTheFile(t *testing.T) {
	c := newInstall(t)
	c.configure("default", authenticated)
	c.password("bgp", "hush")
	node, dir := c.node("a"), t.TempDir()
	m := c.speak(node, func(s *Setup) { s.StateDir = dir })
	eventuallyIs(t, "the session", sessions1+" md5 hush", m.server.String)
	eventuallyIs(t, "the file", "-rw-------", func() string {
		info, err := os.Stat(filepath.Join(dir, memoryFile))
		if err != nil {
			return err.Error()
		}
		return info.Mode().String()
	})
	m.stop()

	away := c
	away.config = rest.CopyConfig(c.config)
	nobody := httptest.NewServer(http.NotFoundHandler())
	away.config.Host = nobody.URL
	nobody.Close()
	again := away.speak(node, func(s *Setup) { s.StateDir = dir })
	again.kernel.hold("kube-lb0", "203.0.113.7/32")
	eventuallyIs(t, "the session without the API server", sessions1+" md5 hush", again.server.String)
	eventuallyIs(t, "the routes", "203.0.113.7/32", again.server.announces)
}

func TestLabelsDrainMarksAndAnnotationsAreFollowed(t *testing.T) {
	c := newInstall(t)
	node := c.node("a")
	c.configure("default", strings.Replace(oneNeighbor, "peerAsn: 65001}", `peerAsn: 65001}, nodeSelector: {matchLabels: {rack: "2"}}`, 1))
	m := c.speak(node, nil)
	m.kernel.hold("kube-lb0", "203.0.113.7/32")
	eventuallyIs(t, "the sessions", "asn 65000 id 192.0.2.10", m.server.String)
	label := func(patch string) {
		t.Helper()
		if _, err := c.core.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	label(`{"metadata":{"labels":{"rack":"2"}}}`)
	eventuallyIs(t, "the sessions with the label", sessions1, m.server.String)
	label(`{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":""}}}`)
	eventuallyIs(t, "the routes of an excluded node", "203.0.113.7/32 65535:0 pref 0", m.server.announces)
	label(`{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":null}}}`)

	c.service("203.0.113.7", corev1.ServiceExternalTrafficPolicyCluster, map[string]string{peering.AnnotationCommunities: "65000:7"})
	eventuallyIs(t, "the routes of the Service", "203.0.113.7/32 65000:7", m.server.announces)
	if _, err := c.core.CoreV1().Services(c.namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+peering.AnnotationCommunities+`":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventuallyIs(t, "the routes without the annotation", "203.0.113.7/32", m.server.announces)
}

func TestADeletedNodeIsSeen(t *testing.T) {
	c := newInstall(t)
	node := c.node("a")
	caches := cluster.NewCaches(c.clients, node, c.namespace, slog.New(slog.DiscardHandler))
	if caches.NodeDeleted() {
		t.Error("the cluster reports a deleted node before it has read the nodes")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ends sync.WaitGroup
	t.Cleanup(func() { cancel(); ends.Wait() })
	ends.Go(func() { _ = caches.Run(ctx) })
	seen := func() string {
		_, complete := caches.Read()
		return fmt.Sprint(complete, caches.NodeDeleted())
	}
	eventuallyIs(t, "what is known of an existing node", "true false", seen)
	expect.NoError(t, c.core.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}))
	eventuallyIs(t, "what is known of a deleted node", "true true", seen)
}

// An uninstallation removes the DaemonSet and the rights of its pods together.
func TestASpeakerRecognizesItsUninstallation(t *testing.T) {
	c := newInstall(t)
	node, user := c.node("a"), "speaker-of-"+c.namespace
	bindings := c.core.RbacV1().ClusterRoleBindings()
	if _, err := bindings.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := c.daemon(node)
	as := c
	as.config = rest.CopyConfig(c.config)
	as.config.Impersonate.UserName = user
	c.configure("default", oneNeighbor)
	m := as.speak(node, func(s *Setup) { s.Pod, s.PodUID = pod.Name, string(pod.UID) })
	m.kernel.hold("kube-lb0", "203.0.113.7/32")
	eventuallyIs(t, "the routes", "203.0.113.7/32", m.server.announces)

	expect.NoError(t, c.core.AppsV1().DaemonSets(c.namespace).Delete(t.Context(), "lbnodeagent", metav1.DeleteOptions{}))
	eventuallyIs(t, "whether the log has the deletion", "true", func() string { return fmt.Sprint(strings.Contains(m.log.String(), "daemonSetDeleted")) })
	expect.NoError(t, bindings.Delete(t.Context(), user, metav1.DeleteOptions{}))
	powerless, err := kubernetes.NewForConfig(as.config)
	expect.NoError(t, err)
	eventuallyIs(t, "whether the rights are gone", "true", func() string {
		_, err := powerless.CoreV1().Pods(c.namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		return fmt.Sprint(apierrors.IsForbidden(err))
	})
	m.stop()
	expect.Equal(t, "routes", m.server.last, "203.0.113.7/32 65535:0 pref 0")
	if !strings.Contains(m.log.String(), "cause=uninstalled") {
		t.Error("the log does not say that PureLB was uninstalled")
	}
}

// daemon creates a DaemonSet with a finalizer, and its pod on node.
func (c install) daemon(node string) *corev1.Pod {
	c.t.Helper()
	labels := map[string]string{"app": "agent"}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "agent"}}}
	set, err := c.core.AppsV1().DaemonSets(c.namespace).Create(c.t.Context(), &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "lbnodeagent", Finalizers: []string{"purelb.io/test"}},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}, metav1.CreateOptions{})
	expect.NoError(c.t, err)
	yes := true
	spec.NodeName = node
	pod, err := c.core.CoreV1().Pods(c.namespace).Create(c.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "lbnodeagent-x", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "DaemonSet", Name: set.Name, UID: set.UID, Controller: &yes},
		}},
		Spec: spec,
	}, metav1.CreateOptions{})
	expect.NoError(c.t, err)
	return pod
}
