package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

// movers is a fakeServer that also serves single Services, with a small allocator and an agent on n1.
type movers struct {
	*fakeServer
	// forbidden is the Service that the user may not change, and silent the one that no node announces.
	forbidden, silent string
	// changed are the Services that were changed, in order.
	changed []string
}

func newMovers(t *testing.T) *movers {
	f := newFakeServer(t)
	f.has(t, filed(t, "", "testdata/moves.yaml"))
	for _, o := range f.objects[pathServices] {
		o["metadata"].(map[string]any)["resourceVersion"] = "1"
	}
	m := &movers{fakeServer: f}
	f.Server = httptest.NewServer(m)
	t.Cleanup(f.Close)
	return m
}

func (m *movers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, found := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/default/services/")
	if !found {
		m.fakeServer.ServeHTTP(w, r)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name, _, _ = strings.Cut(name, "/") // without /status
	all := m.objects[pathServices]
	i := slices.IndexFunc(all, func(o map[string]any) bool { return o["metadata"].(map[string]any)["name"] == name })
	if r.Method == http.MethodPatch {
		if name == m.forbidden {
			m.status(w, http.StatusForbidden)
			return
		}
		var change map[string]any
		_ = json.NewDecoder(r.Body).Decode(&change)
		delete(change["metadata"].(map[string]any), "resourceVersion")
		all[i] = m.served(merged(all[i], change).(map[string]any))
		m.changed = append(m.changed, name)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all[i])
}

// served returns the Service in o as the allocator and an agent leave it behind.
func (m *movers) served(o map[string]any) map[string]any {
	text, _ := json.Marshal(o)
	var svc corev1.Service
	_ = json.Unmarshal(text, &svc)
	addresses := service.Ingress(&svc)
	patch, _ := service.ReleasePatch(&svc)
	if svc.Annotations[service.AnnotationLeave] != "true" {
		if len(addresses) == 0 {
			addresses = []netip.Addr{netip.MustParseAddr("192.168.10.203")}
		}
		patch, _ = service.Result{Addresses: addresses, Origin: service.Origin{From: "default", PoolType: service.PoolLocal}}.Patch(&svc, time.Now())
	}
	var change map[string]any
	_ = json.Unmarshal(patch, &change)
	o = merged(o, change).(map[string]any)
	if svc.Annotations[service.AnnotationLeave] != "true" && svc.Name != m.silent {
		on := cmp.Or(svc.Annotations[service.AnnotationNode], "n1")
		for _, slot := range service.ParseSlots(svc.Annotations[service.AnnotationAnnouncingIPv4]) {
			on = cmp.Or(svc.Annotations[service.AnnotationNode], slot.Node)
		}
		for _, a := range addresses {
			key := service.AnnotationAnnouncingIPv4
			if a.Is6() {
				key = service.AnnotationAnnouncingIPv6
			}
			o["metadata"].(map[string]any)["annotations"].(map[string]any)[key] = on + ",eth0," + a.String()
			for _, l := range m.objects[pathLeases] { // it is no node's own any more
				l["metadata"].(map[string]any)["annotations"].(map[string]any)["purelb.io/node-addresses"] = "192.168.10.11"
			}
		}
	}
	return o
}

// states are the Services of an answer that have not been where they are before, with their states.
func states(t *testing.T, answer string) string {
	t.Helper()
	var ts explain.Transfers
	if err := json.Unmarshal([]byte(answer), &ts); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	of := map[string][]string{}
	for _, one := range ts.Services {
		of[one.State] = append(of[one.State], one.Service)
	}
	var text strings.Builder
	for _, state := range slices.Sorted(maps.Keys(of)) {
		fmt.Fprintf(&text, "%s: %s\n", state, strings.Join(of[state], " "))
	}
	return text.String()
}

func TestServicesAreAdoptedOneAfterTheOther(t *testing.T) {
	m := newMovers(t)
	m.forbidden = "dns-udp"
	out, errs, code := m.ask(t, "adopt", "-A", "--from", "metallb", "-o", "json", "--timeout", "1s")
	want := "Blocked: outside\nDone: both moved none ours\nReady: web\nSkipped: other\nStopped: dns-tcp dns-udp\n"
	if got := states(t, out); got != want || code != exitProblems || !strings.Contains(out, "the list is broken") {
		t.Errorf("a right is missing in the middle: exit code %d, %s%s\nwant %s", code, got, errs, want)
	}
	if want := []string{"both", "dns-tcp"}; !slices.Equal(m.changed, want) {
		t.Errorf("changed %q, want %q", m.changed, want)
	}

	m.forbidden, m.silent = "", "web"
	out, _, code = m.ask(t, "adopt", "-A", "--from", "metallb", "-o", "json", "--timeout", "1s")
	if !strings.Contains(out, "192.168.10.200: no node announces it yet") || code != exitProblems {
		t.Errorf("no node announces an address: exit code %d, %s", code, out)
	}
	if want := []string{"both", "dns-tcp", "dns-tcp", "dns-udp", "web"}; !slices.Equal(m.changed, want) {
		t.Errorf("changed %q, want %q: what is done is left alone", m.changed, want)
	}

	m.silent = ""
	out, _, _ = m.ask(t, "adopt", "default/web", "-o", "json")
	if got := states(t, out); got != "Done: web\n" {
		t.Errorf("the last one is not done: %s", out)
	}
	svc := m.service(t, "dns-udp")
	if a := svc.Annotations; a[service.AnnotationSharing] != "dns" || a[service.AnnotationAdopt] != "true" || svc.Status.LoadBalancer.Ingress[0].IP != "192.168.10.202" {
		t.Errorf("the adopted Service is %+v", svc)
	}
}

// While kube-vip has an address, agents report it as one of their node.
func TestKubeVIPsServicesAreAdopted(t *testing.T) {
	m := newMovers(t)
	if out, errs, code := m.ask(t, "adopt", "default/vip", "--from", "kube-vip", "--timeout", "1s"); code != exitFine {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	if svc := m.service(t, "vip"); svc.Annotations[service.AnnotationAddresses] != "192.168.10.206" || !service.Branded(&svc) {
		t.Errorf("the Service is %+v", svc)
	}
}

func TestAdoptedServicesGoBack(t *testing.T) {
	m := newMovers(t)
	out, errs, code := m.ask(t, "leave", "-A", "-o", "json")
	want := "Blocked: ours\nDone: moved none\n"
	if got := states(t, out); got != want || code != exitProblems {
		t.Errorf("exit code %d, %s%s\nwant %s", code, got, errs, want)
	}
	svc := m.service(t, "moved")
	if _, still := svc.Annotations[service.AnnotationAdopt]; still || svc.Annotations[service.AnnotationLeave] != "true" || svc.Status.LoadBalancer.Ingress[0].IP != "192.168.10.205" {
		t.Errorf("the Service that PureLB left is %+v", svc)
	}
}

// The addresses of nodes are replaced, because no group can have them.
func TestServiceLBIsReplaced(t *testing.T) {
	m := newMovers(t)
	if out, errs, code := m.ask(t, "adopt", "default/nodes", "--from", "servicelb"); code != exitFine {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	svc := m.service(t, "nodes")
	if len(svc.Finalizers) > 0 || svc.Status.LoadBalancer.Ingress[0].IP != "192.168.10.203" {
		t.Errorf("the Service is %+v", svc)
	}
}

// An address that PureLB has given since the plan was made stays.
func TestOnlyTheAddressesOfNodesAreCleared(t *testing.T) {
	w := filed(t, "", "testdata/moves.yaml")
	ts, err := explain.TransfersOf(w, explain.Wish{From: "servicelb", Only: "default/nodes"})
	expect.NoError(t, err)
	for _, tt := range []struct {
		ips  []string
		want bool
	}{{[]string{"192.168.10.11", "192.168.10.12"}, true}, {[]string{"192.168.10.203"}, false}, {nil, false}} {
		var svc corev1.Service
		for _, ip := range tt.ips {
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
		if got := ts.Services[0].Clear(&svc); got != tt.want || got && len(svc.Status.LoadBalancer.Ingress) > 0 {
			t.Errorf("a status with %q is cleared: %v", tt.ips, got)
		}
	}
}

func (m *movers) service(t *testing.T, name string) corev1.Service {
	t.Helper()
	var all []corev1.Service
	remade(t, m.objects[pathServices], &all)
	return all[slices.IndexFunc(all, func(svc corev1.Service) bool { return svc.Name == name })]
}

// A real API server takes the changes of adopt, from a user with the right to make them.
func TestTheAPIServerTakesWhatAdoptWrites(t *testing.T) {
	applied(t)
	server := apitest.Shared(t)
	kubectl := func(input string, args ...string) string {
		t.Helper()
		out, err := server.Kubectl(input, args...)
		if err != nil {
			t.Fatal(err, out)
		}
		return out
	}
	kubectl(`
apiVersion: v1
kind: Node
metadata: {name: k3s}
---
apiVersion: v1
kind: Service
metadata: {name: klipper, namespace: shop, finalizers: [service.kubernetes.io/load-balancer-cleanup, example.com/kept]}
spec: {type: LoadBalancer, ports: [{port: 80}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: only-reads}
rules: [{apiGroups: ["", purelb.io, coordination.k8s.io, networking.k8s.io, discovery.k8s.io], resources: ["*"], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: only-reads}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: only-reads}
subjects: [{kind: User, name: rita, apiGroup: rbac.authorization.k8s.io}]
`, "apply", "-f", "-")
	t.Cleanup(func() {
		_, _ = server.Kubectl("", "patch", "service", "klipper", "-n", "shop", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		_, _ = server.Kubectl("", "delete", "node/k3s", "service/klipper", "-n", "shop")
	})
	kubectl("", "patch", "node", "k3s", "--subresource=status", "--type=merge", "-p", `{"status":{"addresses":[{"type":"InternalIP","address":"192.168.99.11"}]}}`)
	kubectl("", "patch", "service", "klipper", "-n", "shop", "--subresource=status", "--type=merge", "-p", `{"status":{"loadBalancer":{"ingress":[{"ip":"192.168.99.11"}]}}}`)
	adopt := []string{"adopt", "shop/klipper", "--from", "servicelb", "--timeout", "2s"}
	if out, code := cli(t, "", append(adopt, "--as", "rita")...); code != exitProblems || !strings.Contains(out, `cannot patch resource "services"`) {
		t.Errorf("without the right, exit code %d:\n%s", code, out)
	}
	if out, code := cli(t, "", adopt...); code != exitProblems || !strings.Contains(out, "the allocator has not") {
		t.Errorf("without an allocator, exit code %d:\n%s", code, out)
	}
	got := kubectl("", "get", "service", "klipper", "-n", "shop", "-o", `jsonpath={.metadata.finalizers} {.metadata.annotations.purelb\.io/adopt} {.status.loadBalancer}`)
	if want := `["example.com/kept"] true {}`; got != want {
		t.Errorf("the Service has %s, want %s", got, want)
	}
}
