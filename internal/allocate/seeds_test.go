package allocate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/testing/apitest"
)

// example applies a file of examples. Its groups go into PureLB's namespace.
func (w *world) example(file string) {
	w.Helper()
	for _, o := range apitest.Objects(w, "api/testdata/seeds/"+file) {
		if o.GetAPIVersion() != "v1" {
			o.SetNamespace(w.namespace)
		}
		apitest.EnsureNamespace(w, o.GetNamespace())
		must(w, w.client.Create(context.Background(), o))
	}
}

// named returns an empty Service with the name of a Service of an example.
func named(namespace, name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func (w *world) annotation(svc *corev1.Service, name, want string) {
	w.Helper()
	if got := svc.Annotations[name]; got != want {
		w.Errorf("annotation %s of %s is %q, want %q", name, svc.Name, got, want)
	}
}

func TestExampleOf2020UsesTheFlatForm(t *testing.T) {
	w := newWorld(t)
	w.example("2020-overview.yaml")
	w.allocator()
	svc := named("default", "echoserver-service1")
	w.has(svc, "192.168.151.240")
	w.annotation(svc, "purelb.io/allocated-by", "PureLB")
	w.annotation(svc, "purelb.io/allocated-from", "localaddrange")
}

func TestOverviewOfV1GetsBothFamilies(t *testing.T) {
	w := newWorld(t)
	w.example("v1-overview.yaml")
	w.allocator()
	svc := named("default", "kuard-svc-dual-remote")
	w.has(svc, "192.168.10.240 fc00:270:154:0:8100::4")
	w.annotation(svc, "purelb.io/allocated-from", "localaddrange")
	w.annotation(svc, "purelb.io/pool-type", "remote") // no node has the subnet
	w.hasNoNodePort(svc)
}

func TestServicesPageOfV1(t *testing.T) {
	w := newWorld(t)
	w.example("assumed.yaml")
	w.example("v1-services.yaml")
	w.allocator()
	plain := named("servicetest", "servicetest")
	w.has(plain, "172.30.250.53")
	w.annotation(plain, "purelb.io/allocated-from", "localaddr")

	specific := named("servicetest", "specificaddress")
	w.has(specific, "172.31.1.225")
	w.annotation(specific, "purelb.io/allocated-from", "virtualsub")
	w.hasEvent(specific, "DeprecationWarning", "loadBalancerIP", "purelb.io/addresses")

	endpoints := named("servicetest", "endpoints")
	w.has(endpoints, "172.31.1.0") // no node has the subnet, and each address is a route
	w.hasPolicy(endpoints, "Local")

	exposed := named("test", "echoserver-service")
	w.has(exposed, "172.30.250.60")
	w.annotation(exposed, "purelb.io/allocated-from", "default")
	w.tells(exposed, "IPAllocated", "Assigned IP 172.30.250.60 from pool default")
}

func TestTheOptionsOfV1(t *testing.T) {
	w := newWorld(t)
	w.example("assumed.yaml")
	w.example("v1-services.yaml")
	w.example("v1-options.yaml")
	w.allocator()
	w.has(named("servicetest", "addresses"), "172.30.250.80 fd00:172:30:250::27")
	shared := named("servicetest", "shared")
	w.until(func() bool { return addressesOf(fetch(w, shared)) != "" })
	w.says(shared, "True", "Allocated", "from pool virtualsub")
	for _, name := range []string{"no-node-ports", "of-our-class"} {
		svc := named("servicetest", name)
		w.until(func() bool { return len(fetch(w, svc).Status.LoadBalancer.Ingress) == 1 })
	}
	w.hasNoNodePort(named("servicetest", "no-node-ports"))
	both := named("servicetest", "prefers-dual-stack")
	w.until(func() bool { return len(fetch(w, both).Status.LoadBalancer.Ingress) == 2 })
	six := named("servicetest", "only-ipv6")
	w.until(func() bool {
		return strings.HasPrefix(addressesOf(fetch(w, six)), "fd00") && len(six.Status.LoadBalancer.Ingress) == 1
	})
	w.exclusive()
}

func TestTheGroupsOfV2AreLocalAndRemote(t *testing.T) {
	w := newWorld(t)
	w.example("v2-overview.yaml")
	w.allocator()
	local, remote := balancer("local", dualStack("RequireDualStack"), localPolicy), balancer("remote", dualStack("PreferDualStack"), inGroup("virtual"), localPolicy)
	w.create(local, remote)
	w.has(local, "192.168.100.200 fd00:192:168:100::200")
	w.has(remote, "10.250.0.0 fd00:10:250::100")
	w.annotation(local, "purelb.io/pool-type", "local")
	w.annotation(remote, "purelb.io/pool-type", "remote")
	w.annotation(remote, "purelb.io/allocated-from", "virtual")
	if l, r := local.Spec.ExternalTrafficPolicy, remote.Spec.ExternalTrafficPolicy; l != "Cluster" || r != "Local" {
		t.Errorf("policies are %s and %s, want Cluster for the local address and Local for the remote one", l, r)
	}
	w.hasEvent(local, "LocalOverride", "192.168.100.200", "Cluster")
}

// The tests above check every Service of the examples. This test fails if a new example has
// no check.
func TestNoExampleIsForgotten(t *testing.T) {
	var services int
	for _, file := range []string{"2020-overview.yaml", "v1-overview.yaml", "v1-services.yaml", "v1-options.yaml", "v2-overview.yaml", "assumed.yaml", "agents.yaml"} {
		for _, o := range apitest.Objects(t, "api/testdata/seeds/"+file) {
			if isBalancer(o) {
				services++
			}
		}
	}
	if services != 12 {
		t.Errorf("the examples have %d Services, but the tests check 12", services)
	}
}

func isBalancer(o *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(o.Object, "spec", "type")
	return o.GetKind() == "Service" && kind == "LoadBalancer"
}

// TestStatusSaysTheDefaultOfAnnounce: each version of the API stores its own default, and the text of
// a manifest does not tell which one holds.
func TestStatusSaysTheDefaultOfAnnounce(t *testing.T) {
	w := newWorld(t)
	w.allocator()
	g := &v2.ServiceGroup{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "g"}}
	const fine = "Services get addresses from this group"
	const auto = fine + "; spec.local.announce is auto, the default of purelb.io/v1, and stays so if a v2 manifest without announce is applied"
	for _, how := range [][]string{{"apply", "-f", "-"}, {"apply", "--server-side", "-f", "-"}} {
		for _, step := range []struct{ version, announce, want string }{
			{"v1", "", auto},
			{"v2", "", auto},
			{"v2", "announce: local, ", fine},
			{"v1", "announce: local, ", fine},
		} {
			text := fmt.Sprintf("apiVersion: purelb.io/%s\nkind: ServiceGroup\nmetadata: {name: g, namespace: %s}\n"+
				"spec: {local: {%sv4pools: [{pool: 192.0.2.0/24, subnet: 192.0.2.0/24}]}}\n", step.version, w.namespace, step.announce)
			if out, err := apitest.Shared(t).Kubectl(text, how...); err != nil {
				t.Fatalf("%v: %s: %v", how, out, err)
			}
			w.judged(g, "True", "Accepted", step.want)
		}
		must(w, w.client.Delete(context.Background(), g))
	}
}
