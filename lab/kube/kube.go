// Package kube has the requests that the demonstration and the end-to-end tests send to the lab's
// API server, and those of the lab itself: apply documents, wait for a condition, read back.
package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Owner is the field manager of all writes of Apply.
const Owner = "purelb-lab"

// Client talks to the lab's API server. It is safe for concurrent use.
type Client struct {
	client.Client
	server string
	http   *http.Client
}

// Without a logger, controller-runtime prints a warning with a stack after half a minute.
func init() { log.SetLogger(log.Log.WithSink(log.NullLogSink{})) }

// New returns a client for the cluster of a kubeconfig file.
func New(kubeconfig string) (*Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS = -1
	connection, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	c, err := client.New(config, client.Options{HTTPClient: connection})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	return &Client{c, config.Host, connection}, nil
}

// Ready returns nil if the API server says that it is ready.
func (c *Client) Ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.server+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the API server is not ready: %s", answer.Status)
	}
	return nil
}

// ReadyNodes returns every ready node with the boot id in its status.
func (c *Client) ReadyNodes(ctx context.Context) (map[string]string, error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil {
		return nil, err
	}
	ready := map[string]string{}
	for _, n := range nodes.Items {
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				ready[n.Name] = n.Status.NodeInfo.BootID
			}
		}
	}
	return ready, nil
}

// Parse splits YAML documents into objects.
func Parse(documents string) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(documents), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("parse document %d: %w", len(objects)+1, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Apply creates the objects of YAML documents, or updates them.
func (c *Client) Apply(ctx context.Context, documents string) error {
	objects, err := Parse(documents)
	if err != nil {
		return err
	}
	for _, o := range objects {
		err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner(Owner), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), client.ObjectKeyFromObject(o), err)
		}
	}
	return nil
}

// Define applies custom resource definitions, and waits until the API server serves them.
func (c *Client) Define(ctx context.Context, documents string) error {
	if err := c.Apply(ctx, documents); err != nil {
		return err
	}
	objects, err := Parse(documents)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := Until(ctx, func() (string, bool) { return c.established(ctx, o) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) established(ctx context.Context, o *unstructured.Unstructured) (string, bool) {
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return err.Error(), false
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, condition := range conditions {
		if m, ok := condition.(map[string]any); ok && m["type"] == "Established" && m["status"] == "True" {
			return "", true
		}
	}
	return o.GetName() + " is not served yet", false
}

// Remove deletes the objects of YAML documents. A missing object is no error.
func (c *Client) Remove(ctx context.Context, documents string) error {
	objects, err := Parse(documents)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := c.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s %s: %w", o.GetKind(), client.ObjectKeyFromObject(o), err)
		}
	}
	return nil
}

// Service reads a Service.
func (c *Client) Service(ctx context.Context, namespace, name string) (*corev1.Service, error) {
	s := &corev1.Service{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, s); err != nil {
		return nil, err
	}
	return s, nil
}

// Addresses are the load balancer addresses of a Service, in order.
func Addresses(s *corev1.Service) []netip.Addr {
	var out []netip.Addr
	for _, in := range s.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(in.IP); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// WaitAddresses waits until a Service has n addresses, and returns them.
func (c *Client) WaitAddresses(ctx context.Context, namespace, name string, n int) ([]netip.Addr, error) {
	var got []netip.Addr
	err := Until(ctx, func() (string, bool) {
		s, err := c.Service(ctx, namespace, name)
		if err != nil {
			return err.Error(), false
		}
		got = Addresses(s)
		return fmt.Sprintf("Service %s/%s has %v of %d addresses", namespace, name, got, n), len(got) == n
	})
	return got, err
}

// WaitDeployment waits until every replica of a Deployment is available.
func (c *Client) WaitDeployment(ctx context.Context, namespace, name string) error {
	return Until(ctx, func() (string, bool) {
		d := &appsv1.Deployment{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, d); err != nil {
			return err.Error(), false
		}
		want := int32(1)
		if d.Spec.Replicas != nil {
			want = *d.Spec.Replicas
		}
		s := d.Status
		state := fmt.Sprintf("Deployment %s/%s: %d of %d replicas available", namespace, name, s.AvailableReplicas, want)
		return state, s.ObservedGeneration == d.Generation && s.UpdatedReplicas == want && s.AvailableReplicas == want && s.Replicas == want
	})
}

// Pods returns the pods of a namespace that carry the labels.
func (c *Client) Pods(ctx context.Context, namespace string, labels client.MatchingLabels) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := c.List(ctx, &list, client.InNamespace(namespace), labels); err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", namespace, err)
	}
	return list.Items, nil
}

// Until polls the condition until it is true. If the context ends first, the error has the last
// state that the condition returned.
func Until(ctx context.Context, condition func() (state string, ok bool)) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		state, ok := condition()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last seen: %s", context.Cause(ctx), state)
		case <-ticker.C:
		}
	}
}
