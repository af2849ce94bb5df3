package agent

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }

// cluster is a new namespace of a real API server, with a Node. PureLB is installed in it.
type cluster struct {
	t         *testing.T
	config    *rest.Config
	namespace string
	node      string
	core      kubernetes.Interface
	objects   client.Client
}

func newCluster(t *testing.T) cluster {
	t.Helper()
	c := cluster{t: t, config: apitest.Config(t), namespace: apitest.Namespace(t)}
	c.node = "node-of-" + c.namespace
	scheme := runtime.NewScheme()
	expect.NoError(t, v2.AddToScheme(scheme))
	var err error
	if c.core, err = kubernetes.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	if c.objects, err = client.New(c.config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.node, Labels: map[string]string{"zone": "a"}}}
	if _, err := c.core.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c cluster) apply(o client.Object) {
	c.t.Helper()
	o.SetNamespace(c.namespace)
	o.SetUID("")
	o.SetGeneration(0)
	expect.NoError(c.t, c.objects.Create(c.t.Context(), o))
}

// serve creates a Service and gives it addresses as the allocator does. The Service is deleted at
// the end of the test.
func (c cluster) serve(name string, change func(*corev1.Service), ips ...string) {
	c.t.Helper()
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
	if change != nil {
		change(svc)
	}
	services := c.core.CoreV1().Services(c.namespace)
	if _, err := services.Create(c.t.Context(), svc, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = services.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	ingress := make([]string, len(ips))
	for i, ip := range ips {
		ingress[i] = fmt.Sprintf(`{"ip":%q}`, ip)
	}
	c.patch(name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}},"status":{"loadBalancer":{"ingress":[%s]}}}`,
		service.AnnotationAllocatedBy, service.Brand, strings.Join(ingress, ",")), "status")
}

func (c cluster) patch(name, patch string, subresource ...string) {
	c.t.Helper()
	_, err := c.core.CoreV1().Services(c.namespace).Patch(c.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
	expect.NoError(c.t, err)
}

func (c cluster) get(name string) *corev1.Service {
	c.t.Helper()
	svc, err := c.core.CoreV1().Services(c.namespace).Get(c.t.Context(), name, metav1.GetOptions{})
	expect.NoError(c.t, err)
	return svc
}

// endpoint gives the Service with this name one endpoint of each family on node.
func (c cluster) endpoint(name, node string, ready bool) {
	c.t.Helper()
	slices := c.core.DiscoveryV1().EndpointSlices(c.namespace)
	for kind, ip := range map[discoveryv1.AddressType]string{discoveryv1.AddressTypeIPv4: "10.1.1.1", discoveryv1.AddressTypeIPv6: "fd01::1"} {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: name + "-" + strings.ToLower(string(kind)), Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: kind,
			Endpoints: []discoveryv1.Endpoint{{
				Addresses: []string{ip}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			}},
		}
		_ = slices.Delete(c.t.Context(), slice.Name, metav1.DeleteOptions{})
		if _, err := slices.Create(c.t.Context(), slice, metav1.CreateOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// eventually waits until is returns true.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	eventuallyIs(t, what, "true", func() string { return fmt.Sprint(is()) })
}

// eventuallyIs waits until text returns want. It asks again and again: the kernel, the API server and
// the agents tell a test nothing.
func eventuallyIs(t *testing.T, what, want string, text func() string) {
	t.Helper()
	got := text()
	for deadline := time.Now().Add(40 * time.Second); got != want; got = text() {
		if time.Now().After(deadline) {
			t.Fatalf("after 40 s, %s differs (-want +got)\n%s", what, cmp.Diff(want, got))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func ptr[T any](v T) *T { return &v }

// run runs a part of the agent until the test ends.
func run(t *testing.T, part func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the part of the agent ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
