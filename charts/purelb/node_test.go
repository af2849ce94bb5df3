package chart

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

// Paths of the objects.
const (
	system    = "/api/v1/namespaces/purelb-system"
	leases    = "/apis/coordination.k8s.io/v1/namespaces/purelb-system/leases"
	statuses  = "/apis/bgp.purelb.io/v1/bgpnodestatuses"
	configs   = "/apis/bgp.purelb.io/v1/namespaces/purelb-system/configs"
	purelb    = "/apis/purelb.io/v2/namespaces/purelb-system"
	web       = "/api/v1/namespaces/default/services/web"
	webStatus = web + "/status"
)

// attempt is a request. A PATCH is a merge patch.
type attempt struct{ name, method, path, body, want string }

func annotate(key, value string) string {
	return fmt.Sprintf(`{"metadata": {"annotations": {"purelb.io/%s": %s}}}`, key, value)
}

func leaseOf(name string) string {
	return fmt.Sprintf(`{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": %q, "resourceVersion": "VERSION"}, "spec": {"holderIdentity": "node-1"}}`, name)
}

func bgpStatusOf(node string) string {
	return fmt.Sprintf(`{"apiVersion": "bgp.purelb.io/v1", "kind": "BGPNodeStatus", "metadata": {"name": %q, "resourceVersion": "VERSION"}, "status": {"nodeName": %q, "neighborCount": 0}}`, node, node)
}

func eventOf(name, node string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Event", "metadata": {"name": %q}, "involvedObject": {"kind": "Service", "namespace": "default", "name": "web"}, "source": {"component": "purelb-lbnodeagent", "host": %q}}`, name, node)
}

const (
	byRBAC   = "is forbidden: User"
	image    = `{"spec": {"containers": [{"name": "lbnodeagent", "image": "example.org/mine"}]}}`
	notOwn   = "may add entries of its own node"
	notGone  = "may not remove entries of other nodes"
	notOther = "may change purelb.io/announcing-IPv4 and purelb.io/announcing-IPv6 only"
	notMeta  = "may not change labels, finalizers or owner references"
	notShown = "may not change the status of a Service"
)

// harmful has requests that the API server must refuse with the token of node-1's agent.
var harmful = []attempt{
	{"the image of the allocator", "PATCH", system + "/pods/allocator-1", image, byRBAC},
	{"the image of another agent", "PATCH", system + "/pods/agent-2", image, byRBAC},
	{"an annotation of its own pod", "PATCH", system + "/pods/agent-1", annotate("x", `"y"`), byRBAC},
	{"a new pod", "POST", system + "/pods", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mine"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}`, byRBAC},
	{"the deletion of another agent", "DELETE", system + "/pods/agent-2", "", byRBAC},
	{"a command in another pod", "POST", system + "/pods/agent-2/exec?command=sh", "", byRBAC},
	{"the DaemonSet", "PATCH", "/apis/apps/v1/namespaces/purelb-system/daemonsets/lbnodeagent", `{"metadata": {"labels": {"a": "b"}}}`, byRBAC},
	{"a token of the allocator", "POST", system + "/serviceaccounts/allocator/token", `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}`, byRBAC},
	{"a token of its own account without a node", "POST", system + "/serviceaccounts/lbnodeagent/token", `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}`, byRBAC},

	{"the Lease of another node", "PUT", leases + "/purelb-node-node-2", leaseOf("purelb-node-node-2"), "may write the Lease purelb-node-node-1 only"},
	{"the Lease of the allocator", "PUT", leases + "/purelb-allocator", leaseOf("purelb-allocator"), "may write the Lease purelb-node-node-1 only"},
	{"the Lease of a node without one", "POST", leases, leaseOf("purelb-node-node-3"), "may write the Lease purelb-node-node-1 only"},
	{"the deletion of another node's Lease", "DELETE", leases + "/purelb-node-node-2", "", "may write the Lease purelb-node-node-1 only"},
	{"the deletion of the allocator's Lease", "DELETE", leases + "/purelb-allocator", "", "may write the Lease purelb-node-node-1 only"},
	{"the deletion of all Leases", "DELETE", leases, "", byRBAC},

	{"another address of a Service", "PATCH", webStatus, `{"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}}}`, notShown},
	{"no address of a Service", "PATCH", webStatus, `{"status": {"loadBalancer": {"ingress": null}}}`, notShown},
	{"a condition of a Service", "PATCH", webStatus, `{"status": {"conditions": [{"type": "purelb.io/Allocated", "status": "False", "reason": "X", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`, notShown},
	{"the record of a Service", "PATCH", webStatus, `{"status": {"conditions": [{"type": "purelb.io/Record", "status": "True", "reason": "Given", "message": "{\"addresses\":[\"203.0.113.1\"]}", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`, notShown},
	{"an entry of another node", "PATCH", webStatus, annotate("announcing-IPv4", `"node-2,eth0,192.168.1.201 node-1,eth0,192.168.1.200 node-2,eth0,192.168.1.202"`), notOwn},
	{"an entry of another node whose name begins like its own", "PATCH", webStatus, annotate("announcing-IPv4", `"node-2,eth0,192.168.1.201 node-10,eth0,192.168.1.202"`), notOwn},
	{"an entry with another interface of another node", "PATCH", webStatus, annotate("announcing-IPv4", `"node-2,eth1,192.168.1.201"`), notOwn},
	{"an entry for an address that the Service does not have", "PATCH", webStatus, annotate("announcing-IPv4", `"node-2,eth0,192.168.1.201 node-1,eth0,192.168.1.250"`), notOwn},
	{"an entry without an address", "PATCH", webStatus, annotate("announcing-IPv4", `"node-2,eth0,192.168.1.201 node-1"`), notOwn},
	{"an entry moved to the other family", "PATCH", webStatus, annotate("announcing-IPv6", `"node-2,eth0,fd00::1 node-2,eth0,192.168.1.201"`), notOwn},
	{"the removal of another node's entry", "PATCH", webStatus, annotate("announcing-IPv4", `"node-1,eth0,192.168.1.200"`), notGone},
	{"the removal of all entries", "PATCH", webStatus, annotate("announcing-IPv6", "null"), notGone},
	{"the removal of a Service's owner annotation", "PATCH", webStatus, annotate("allocated-by", "null"), notOther},
	{"another owner annotation", "PATCH", webStatus, annotate("allocated-by", `"mine"`), notOther},
	{"the group of a Service", "PATCH", webStatus, annotate("service-group", `"mine"`), notOther},
	{"a label of a Service", "PATCH", webStatus, `{"metadata": {"labels": {"team": "mine"}}}`, notMeta},
	{"no label of a Service", "PATCH", webStatus, `{"metadata": {"labels": null}}`, notMeta},
	{"the finalizers of a Service", "PATCH", webStatus, `{"metadata": {"finalizers": null}}`, notMeta},
	{"an owner of a Service", "PATCH", webStatus, `{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "1"}]}}`, notMeta},
	{"the spec of a Service", "PATCH", web, `{"spec": {"externalTrafficPolicy": "Local"}}`, byRBAC},
	{"all of a Service", "PUT", web, "", byRBAC},
	{"a new Service", "POST", "/api/v1/namespaces/default/services", `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "mine"}, "spec": {"ports": [{"port": 80}]}}`, byRBAC},

	{"all Secrets", "GET", system + "/secrets", "", byRBAC},
	{"the Secrets of all namespaces", "GET", "/api/v1/secrets", "", byRBAC},
	{"a Secret that no configuration names", "GET", system + "/secrets/netbox", "", byRBAC},
	{"a new Secret", "POST", system + "/secrets", `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"}}`, byRBAC},
	{"another gossip key", "PATCH", system + "/secrets/purelb-gossip", `{"data": null}`, byRBAC},
	{"the BGPNodeStatus of another node", "PUT", statuses + "/node-2", bgpStatusOf("node-2"), "may write the BGPNodeStatus node-1 only"},
	{"the status of BGP on another node", "PUT", statuses + "/node-2/status", bgpStatusOf("node-2"), "may write the BGPNodeStatus node-1 only"},
	{"the BGPNodeStatus of a node without one", "POST", statuses, bgpStatusOf("node-3"), "may write the BGPNodeStatus node-1 only"},
	{"the deletion of another node's BGPNodeStatus", "DELETE", statuses + "/node-2", "", "may write the BGPNodeStatus node-1 only"},
	{"the BGPConfiguration of all nodes", "PATCH", configs + "/default", `{"spec": {"global": {"asn": 65002}}}`, byRBAC},
	{"the finalizers of the BGPConfiguration", "PATCH", configs + "/default", `{"metadata": {"finalizers": null}}`, byRBAC},
	{"the status of the BGPConfiguration", "PATCH", configs + "/default/status", `{"status": {"message": "mine"}}`, byRBAC},
	{"all of the status of the BGPConfiguration", "PUT", configs + "/default/status", "", byRBAC},
	{"a ServiceGroup", "PATCH", purelb + "/servicegroups/default", `{"spec": {"local": null}}`, byRBAC},
	{"the status of a ServiceGroup", "PATCH", purelb + "/servicegroups/default/status", `{"status": null}`, byRBAC},
	{"an LBNodeAgent", "PATCH", purelb + "/lbnodeagents/default", `{"spec": {"local": {"localInterface": "eth9"}}}`, byRBAC},
	{"its own node", "PATCH", "/api/v1/nodes/node-1", `{"metadata": {"labels": {"a": "b"}}}`, byRBAC},
	{"more rights", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "mine"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}}`, byRBAC},
	{"the deletion of a policy", "DELETE", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/purelb-agent-services", "", byRBAC},
	{"an event of another node", "POST", "/api/v1/namespaces/default/events", eventOf("mine", "node-2"), "may write events of its own node only"},
	{"another text in the event of another node", "PATCH", "/api/v1/namespaces/default/events/of-node-2", `{"message": "mine", "source": {"host": "node-1"}}`, "may write events of its own node only"},
}

// needed has requests that the programs on node-1 make, in a possible order.
var needed = []attempt{
	{"its own entry for another address", "PATCH", webStatus, annotate("announcing-IPv4", `"node-1,eth0,192.168.1.200 node-2,eth0,192.168.1.201 node-1,eth0,192.168.1.202"`), "node-1,eth0,192.168.1.202"},
	{"an address that it takes over", "PATCH", webStatus, annotate("announcing-IPv4", `"node-1,eth0,192.168.1.200 node-1,eth0,192.168.1.201 node-1,eth0,192.168.1.202"`), "node-1,eth0,192.168.1.201"},
	{"its own entry with another interface", "PATCH", webStatus, annotate("announcing-IPv4", `"node-1,eth1,192.168.1.200 node-1,eth0,192.168.1.201 node-1,eth0,192.168.1.202"`), "node-1,eth1,192.168.1.200"},
	{"the removal of its entries", "PATCH", webStatus, annotate("announcing-IPv4", "null"), `"web"`},
	{"the only entry of a family", "PATCH", webStatus, annotate("announcing-IPv6", `"node-1,eth0,fd00::1"`), "node-1,eth0,fd00::1"},

	{"a Lease", "POST", leases, leaseOf("purelb-node-node-1"), "purelb-node-node-1"},
	{"a renewal", "PUT", leases + "/purelb-node-node-1", leaseOf("purelb-node-node-1"), "purelb-node-node-1"},
	{"the deletion of the Lease", "DELETE", leases + "/purelb-node-node-1", "", "Success"},
	{"the Leases of others", "GET", leases, "", "purelb-node-node-2"},

	{"a BGPNodeStatus", "POST", statuses, bgpStatusOf("node-1"), "node-1"},
	{"its owner", "PUT", statuses + "/node-1", bgpStatusOf("node-1"), "node-1"},
	{"how BGP does", "PUT", statuses + "/node-1/status", bgpStatusOf("node-1"), "neighborCount"},
	{"the deletion of the BGPNodeStatus", "DELETE", statuses + "/node-1", "", "Success"},

	{"an event", "POST", "/api/v1/namespaces/default/events", eventOf("mine", "node-1"), "mine"},
	{"an event that repeats itself", "PATCH", "/api/v1/namespaces/default/events/mine", `{"count": 2}`, `"count":2`},

	{"the gossip key", "GET", system + "/secrets/purelb-gossip", "", "purelb-gossip"},
	{"a password that the configuration names", "GET", system + "/secrets?fieldSelector=metadata.name%3Dbgp", "", `"bgp"`},
	{"its own pod", "GET", system + "/pods/agent-1", "", "agent-1"},
	{"its DaemonSet", "GET", "/apis/apps/v1/namespaces/purelb-system/daemonsets/lbnodeagent", "", `"DaemonSet"`},
	{"the BGPConfiguration", "GET", configs, "", "65001"},
	{"the ServiceGroups", "GET", purelb + "/servicegroups", "", "192.168.1.0/24"},
	{"the LBNodeAgents", "GET", purelb + "/lbnodeagents", "", "kube-lb0"},
	{"the Nodes", "GET", "/api/v1/nodes", "", "node-2"},
	{"the Services", "GET", "/api/v1/services?fieldSelector=spec.type%3DLoadBalancer", "", `"web"`},
	{"the endpoints of Services", "GET", "/apis/discovery.k8s.io/v1/endpointslices", "", "EndpointSliceList"},
}

// A dry run needs the same rights as a real request, and changes nothing. So the test can repeat it
// until the API server enforces the policies.
func TestTokenOfANodeCannotHarmOthers(t *testing.T) {
	server := apitest.Start(t)
	install(t, server, "--set", "gobgp.passwordSecrets={bgp}")
	const ingress = `{"status": {"loadBalancer": {"ingress": [{"ip": "192.168.1.200"}, {"ip": "192.168.1.201"}, {"ip": "192.168.1.202"}, {"ip": "fd00::1"}]}}}`
	out, err := server.Shell("kubectl apply -f testdata/two-nodes.yaml; kubectl patch service web --subresource=status --type=merge -p '" + ingress + "'")
	if err != nil {
		t.Fatal(out)
	}
	attacker := newCaller(t, server, withToken(t, server.Config, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "agent-1"}))
	for _, a := range harmful {
		t.Run("no/"+a.name, func(t *testing.T) {
			eventually(t, a.want, func() string { return attacker.refused(t, a) })
		})
	}
	for _, a := range needed {
		t.Run("yes/"+a.name, func(t *testing.T) {
			eventually(t, a.want, func() string { return attacker.allowed(t, a) })
		})
	}
	t.Run("no/a token without a node", func(t *testing.T) {
		stray := newCaller(t, server, withToken(t, server.Config, nil))
		for _, a := range needed {
			if a.method == "GET" {
				continue
			}
			if a.method != "POST" { // of an object that exists
				other := strings.NewReplacer("node-1", "node-2", "events/mine", "events/of-node-2")
				a.path, a.body = other.Replace(a.path), other.Replace(a.body)
			}
			if got := stray.refused(t, a); !strings.Contains(got, "names no node") {
				t.Errorf("%s: %s", a.name, got)
			}
		}
	})
}

// The allocator can change one finalizer of a ServiceGroup, and can create its own objects. It can create
// no object into which Kubernetes would write a token.
func TestAllocatorWritesOnlyWhatIsItsOwn(t *testing.T) {
	server := apitest.Start(t)
	install(t, server)
	const group = `
apiVersion: purelb.io/v2
kind: ServiceGroup
metadata: {name: default, namespace: purelb-system, finalizers: [example.org/keep]}
spec: {local: {v4pool: {subnet: 192.168.1.0/24, pool: 192.168.1.200-192.168.1.230}}}
`
	if out, err := server.Kubectl(group, "apply", "-f", "-"); err != nil {
		t.Fatal(out)
	}
	secret := func(name, kind string) string {
		return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": %q, "annotations": {"kubernetes.io/service-account.name": "lbnodeagent"}}, "type": %q}`, name, kind)
	}
	const path, only = purelb + "/servicegroups/default", "may change the finalizer purelb.io/announcement of a ServiceGroup only"
	allocator := newCaller(t, server, as("allocator", server.Config))
	for _, a := range []attempt{
		{"the pool", "PATCH", path, `{"spec": {"local": {"v4pool": {"pool": "192.168.1.200-192.168.1.250"}}}}`, only},
		{"an annotation", "PATCH", path, annotate("x", `"y"`), only},
		{"the finalizer of another program", "PATCH", path, `{"metadata": {"finalizers": null}}`, only},
		{"a Secret with another name", "POST", system + "/secrets", secret("mine", "Opaque"), "may create the Secret purelb-gossip of type Opaque only"},
		{"a Secret for a token", "POST", system + "/secrets", secret("purelb-gossip", "kubernetes.io/service-account-token"), "of type Opaque only"},
		{"the Lease of a node", "POST", leases, leaseOf("purelb-node-node-2"), "may create the Lease purelb-allocator only"},
		{"another Secret", "GET", system + "/secrets/other", "", byRBAC},
		{"all Secrets", "GET", system + "/secrets", "", byRBAC},
	} {
		t.Run("no/"+a.name, func(t *testing.T) {
			eventually(t, a.want, func() string { return allocator.refused(t, a) })
		})
	}
	for _, a := range []attempt{
		{"its finalizer", "PATCH", path, `{"metadata": {"finalizers": ["example.org/keep", "purelb.io/announcement"]}}`, "purelb.io/announcement"},
		{"its finalizer no more", "PATCH", path, `{"metadata": {"finalizers": ["example.org/keep"]}}`, "example.org/keep"},
		{"the gossip key", "POST", system + "/secrets", secret("purelb-gossip", "Opaque"), "purelb-gossip"},
		{"its Lease", "POST", leases, leaseOf("purelb-allocator"), "purelb-allocator"},
		{"the Secret for NetBox, which does not exist", "GET", system + "/secrets/netbox-client", "", "refused: 404"},
	} {
		t.Run("yes/"+a.name, func(t *testing.T) {
			eventually(t, a.want, func() string { return allocator.allowed(t, a) })
		})
	}
}

// withToken returns a copy of config with a token of the agents' service account.
func withToken(t *testing.T, config *rest.Config, bound *authenticationv1.BoundObjectReference) *rest.Config {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	token, err := clients.CoreV1().ServiceAccounts("purelb-system").CreateToken(t.Context(), "lbnodeagent",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}, metav1.CreateOptions{})
	expect.NoError(t, err)
	with := rest.AnonymousClientConfig(config)
	with.BearerToken = token.Status.Token
	with.QPS = -1
	return with
}

// caller sends requests with the credentials of a configuration, and reads versions as administrator.
type caller struct{ client, admin *rest.RESTClient }

func newCaller(t *testing.T, server *apitest.Server, config *rest.Config) caller {
	t.Helper()
	client := func(config *rest.Config) *rest.RESTClient {
		config = rest.CopyConfig(config)
		config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
		client, err := rest.UnversionedRESTClientFor(config)
		expect.NoError(t, err)
		return client
	}
	return caller{client(config), client(server.Config)}
}

// do sends a request and returns the answer. Instead of VERSION, it sends the version of the object.
func (c caller) do(t *testing.T, a attempt, query string) (code int, text string) {
	t.Helper()
	var now metav1.PartialObjectMetadata
	if a.method == "PUT" {
		stored, _ := c.admin.Get().RequestURI(a.path).DoRaw(t.Context())
		_ = json.Unmarshal(stored, &now) // no object has no version
	}
	kind := "application/json"
	if a.method == "PATCH" {
		kind = "application/merge-patch+json"
	}
	request := c.client.Verb(a.method).RequestURI(a.path+query).SetHeader("Content-Type", kind).Timeout(time.Minute) // the machine may be busy
	body, err := request.Body([]byte(strings.ReplaceAll(a.body, "VERSION", now.ResourceVersion))).Do(t.Context()).StatusCode(&code).Raw()
	if code == 0 {
		t.Fatal(err)
	}
	return code, string(body)
}

// refused sends a as a dry run, and returns why the API server forbids it.
func (c caller) refused(t *testing.T, a attempt) string {
	t.Helper()
	query := "?dryRun=All"
	if a.method == "GET" || strings.Contains(a.path, "?") {
		query = ""
	}
	code, text := c.do(t, a, query)
	if code != http.StatusForbidden {
		return fmt.Sprintf("not refused: %d %s", code, text)
	}
	return text
}

// allowed sends a, and returns the answer. The API server does not apply all roles at the same time.
func (c caller) allowed(t *testing.T, a attempt) string {
	t.Helper()
	code, text := c.do(t, a, "")
	if code >= 300 {
		return fmt.Sprintf("refused: %d", code)
	}
	return text
}
