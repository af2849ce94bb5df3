package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/product"
)

// Promise: a Service gets its addresses from NetBox or an IPAM server as it does from a pool. A fault
// of a backend takes no address from a Service, assigns no address to two Services, and does not
// delay other groups.

func TestBackends(t *testing.T) {
	b := startBackends(t)
	for _, scene := range []struct {
		name string
		run  func(t *testing.T, b backends)
	}{
		{"AddressesReachClientsAndAreGivenBack", addressesOfBackends},
		{"AnOutageOfNetBoxCostsNothing", outageOfNetBox},
		{"AnOutageOfTheIPAMServerCostsNothing", outageOfIPAMServer},
		{"ARestartOfTheAllocatorAsksForNothing", restartWithBackends},
		{"APoolMovesIntoNetBox", poolMoves},
		{"KilledAtAnyStepTheAllocatorLosesNothing", killedAtAnyStep},
		{"AnUninstallKeepsNoServiceFromItsDeletion", uninstalledWithBackends},
	} {
		t.Run(scene.name, func(t *testing.T) { scene.run(t, b) })
	}
}

func addressesOfBackends(t *testing.T, b backends) {
	w := b.world(t, 0)
	w.apply(echo("web", 2), service("of-netbox", netboxGroup), service("of-server", externalGroup))
	has := w.has("of-netbox", "of-server")
	w.agree()
	w.answers(slices.Concat(has["of-netbox"], has["of-server"])...)
	list, err := w.netbox.Addresses(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if a.Status != "active" || a.Description != namespace+"/of-netbox" {
			t.Errorf("NetBox has %s with the status %s and the description %q", a.Address, a.Status, a.Description)
		}
	}
	w.remove(service("of-netbox", netboxGroup), service("of-server", externalGroup))
	w.clean()
}

// outage is a fault of a backend.
type outage struct {
	name  string
	begin func() (end func())
}

func outageOfNetBox(t *testing.T, b backends) {
	w := b.world(t, 5*time.Minute)
	w.surviveOutages(netboxGroup, []outage{
		{"down", func() func() { w.order("down"); return func() { w.order("up") } }},
		{"hanging", func() func() { w.order("stop", "at=request"); return func() { w.order("resume") } }},
		{"refusing", func() func() { w.order("token", "state=disabled"); return func() { w.order("token", "state=valid") } }},
	})
}

func outageOfIPAMServer(t *testing.T, b backends) {
	w := b.world(t, 5*time.Minute)
	signal := func(sig syscall.Signal) {
		if err := syscall.Kill(w.ipamServer(), sig); err != nil {
			t.Fatal(err)
		}
	}
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	w.surviveOutages(externalGroup, []outage{
		{"hanging", func() func() { signal(syscall.SIGSTOP); return func() { signal(syscall.SIGCONT) } }},
		{"refusing", func() func() { must(w.server.Lock(w.ctx)); return func() { must(w.server.Unlock(w.ctx)) } }},
		{"killed", func() func() {
			signal(syscall.SIGKILL)
			return func() {} // the kubelet starts the IPAM server again
		}},
	})
	w.freshAllocator() // in a new pod, the kubelet restarts the IPAM server without a delay
}

// surviveOutages makes outages of a group's backend. A Service with an address keeps it, and clients
// reach it. Local groups work. Services that wait get addresses after the outage.
func (b backed) surviveOutages(group string, outages []outage) {
	b.t.Helper()
	b.apply(echo("web", 2), service("old", group))
	old := b.has("old")
	b.answers(old["old"]...)
	for _, o := range outages {
		waits, local := "waits-"+o.name, "local-"+o.name
		end := b.undoable(o.begin())
		began := time.Now()
		b.apply(service(waits, group), service(local, "local"))
		b.has(local)
		b.t.Logf("%s: a local Service had its addresses after %s", o.name, time.Since(began).Round(time.Millisecond))
		b.keeps(old)
		for _, a := range old["old"] {
			if err := b.visit(netip.AddrPortFrom(a, 80), 10); err != nil {
				b.t.Errorf("%s: %s does not answer: %v", o.name, a, err)
			}
		}
		if o.name != "killed" { // the kubelet may restart a killed server at any moment
			b.until(patience, "the condition of "+waits+" has the reason", func() bool {
				c := b.condition(waits)
				return c.Status == "False" && strings.Contains(c.Message, group)
			})
			b.t.Logf("%s: %s: %s", o.name, b.condition(waits).Reason, b.condition(waits).Message)
			if now := kube.Addresses(b.service(waits)); len(now) > 0 {
				b.t.Errorf("%s: %s has %v", o.name, waits, now)
			}
		}
		end()
		began = time.Now()
		b.until(2*patience, waits+" has its addresses", func() bool { return len(kube.Addresses(b.service(waits))) == 2 })
		b.t.Logf("%s: the waiting Service had its addresses %s after the outage", o.name, time.Since(began).Round(time.Millisecond))
		b.agree()
		b.keeps(old)
	}
}

func restartWithBackends(t *testing.T, b backends) {
	w := b.world(t, 0)
	names := []string{"one", "two", "three", "four"}
	for i, name := range names {
		w.apply(service(name, []string{netboxGroup, externalGroup}[i%2]))
	}
	had := w.has(names...)
	w.agree()
	versions := func() (list []string) {
		for _, name := range names {
			s := w.service(name)
			for _, m := range s.ManagedFields {
				if m.Manager == allocatorWriter {
					list = append(list, fmt.Sprint(name, " ", m.Subresource, " ", m.Time))
				}
			}
		}
		return list
	}
	written, asked := versions(), w.writesToNetBox()
	looked := w.requests("GET /api/ipam/ip-addresses/")
	w.restartAllocator()
	w.apply(service("five", "local"))
	w.has("five")
	w.until(2*patience, "the allocator has compared the addresses of NetBox", func() bool {
		return w.requests("GET /api/ipam/ip-addresses/") >= looked+3
	})
	if now := w.writesToNetBox(); now != asked {
		t.Errorf("the allocator wrote to NetBox %d times after its restart, want 0", now-asked)
	}
	if now := versions(); !slices.Equal(now, written) {
		t.Errorf("the allocator wrote to Services after its restart:\n%s\nand before:\n%s", strings.Join(now, "\n"), strings.Join(written, "\n"))
	}
	if calls := w.allocateCalls(); calls != 0 {
		t.Errorf("the allocator asked the IPAM server for addresses %d times after its restart, want 0", calls)
	}
	w.keeps(had)
	w.agree()
}

// requests returns the number of requests to NetBox for a call.
func (b backed) requests(call string) int {
	b.t.Helper()
	counts, err := b.netbox.Requests(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	return counts[call]
}

// writesToNetBox returns the number of requests that change NetBox.
func (b backed) writesToNetBox() (n int) {
	b.t.Helper()
	counts, err := b.netbox.Requests(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	for call, times := range counts {
		if !strings.HasPrefix(call, "GET ") {
			n += times
		}
	}
	return n
}

// allocateCalls returns the number of Allocate calls of the current allocator, from its metrics.
func (b backed) allocateCalls() (n int) {
	b.t.Helper()
	pod := b.readyPod("allocator", "")
	text, err := b.fetch(pod.Spec.NodeName, netip.AddrPortFrom(netip.MustParseAddr(pod.Status.PodIP), 7472).String()+"/metrics")
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "purelb_allocator_sidecar_rpc_total{") && strings.Contains(line, "IPAM/Allocate") {
			fields := strings.Fields(line)
			var count float64
			if _, err := fmt.Sscan(fields[len(fields)-1], &count); err != nil {
				b.t.Fatalf("%q: %v", line, err)
			}
			n += int(count)
		}
	}
	return n
}

func poolMoves(t *testing.T, b backends) {
	w := b.world(t, 0)
	const group = "moving"
	write := func(spec string) string {
		return "apiVersion: purelb.io/v2\nkind: ServiceGroup\nmetadata: {name: " + group + ", namespace: " + product.Namespace + "}\nspec: " + spec
	}
	local := write("{local: {v4pools: [{subnet: 172.30.250.0/24, pool: " + movedRange + "}]}}")
	first, last, _ := strings.Cut(movedRange, "-")
	backed := write("{netbox: {url: " + w.netbox.URL + ", announce: local, parents: [{range: {start: " + first + "}}]}}")
	t.Cleanup(func() { w.remove(local) })
	w.apply(echo("web", 2), local)
	names := []string{"one", "two"}
	had := map[string][]netip.Addr{}
	single := func(name string) string {
		return strings.Replace(service(name, group), "RequireDualStack", "SingleStack", 1)
	}
	for _, name := range names {
		w.apply(single(name))
		had[name] = w.addresses(name, 1)
		w.answers(had[name]...)
	}
	watched := w.probe(had["one"][0])
	w.apply(backed)
	w.until(2*patience, "NetBox has the addresses that Services had", func() bool { return len(w.held()) == len(names) })
	w.apply(single("three"))
	got := w.addresses("three", 1)[0]
	if end := netip.MustParseAddr(last); got.Less(netip.MustParseAddr(first)) || end.Less(got) {
		t.Errorf("three has %s, want an address of %s", got, movedRange)
	}
	w.shown() // fails the test if another Service has the address
	held := w.held()
	for _, name := range append(names, "three") {
		for _, a := range kube.Addresses(w.service(name)) {
			if want := "NetBox " + namespace + "/" + name; held[a] != want {
				t.Errorf("%s is held for %q, want %q", a, held[a], want)
			}
		}
	}
	w.answers(got)
	w.keeps(had)
	if r := watched.Stop(); r.Lost() > 0 {
		t.Errorf("probes of an address have no answer while its group moves: %s", r)
	}
	for _, name := range append(names, "three") {
		w.remove(single(name))
	}
	w.clean()
}

// uninstalling are the messages of programs that lose their rights before they end.
var uninstalling = append([]string{"departed", "Failed to release lease"}, withoutAPI...)

// uninstalledWithBackends uninstalls PureLB while Services have addresses of backends. No finalizer
// stays, so a Service can be deleted. The other one has its address again after the next install.
func uninstalledWithBackends(t *testing.T, b backends) {
	w := b.world(t, 5*time.Minute)
	w.expect(uninstalling...)
	w.apply(service("of-netbox", netboxGroup), service("of-server", externalGroup))
	has := w.has("of-netbox", "of-server")
	if err := lab.tree.Helm(w.ctx, "uninstall", product.Release, "--kubeconfig", lab.Kubeconfig(), "--namespace", product.Namespace); err != nil {
		t.Fatal(err)
	}
	for name := range has {
		if f := w.service(name).Finalizers; len(f) > 0 {
			t.Errorf("%s has the finalizers %v", name, f)
		}
	}
	w.remove(service("of-server", externalGroup))
	w.until(patience, "a Service is deleted without an allocator", func() bool {
		return apierrors.IsNotFound(w.Get(w.ctx, client.ObjectKey{Namespace: namespace, Name: "of-server"}, &corev1.Service{}))
	})
	if err := lab.install(); err != nil {
		t.Fatal(err)
	}
	w.apply(b.groups())
	w.setValues(lab.tree, b.values...)
	w.until(patience, "the allocator serves of-netbox again", func() bool { return len(w.service("of-netbox").Finalizers) > 0 })
	delete(has, "of-server")
	w.keeps(has)
}
