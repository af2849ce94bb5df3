package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/lab/backend"
	"purelb.io/purelb/lab/internal/build"
	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/product"
)

// backends are the backends of the IPAM tests: NetBox on the machine outside of the cluster,
// and an IPAM server in the allocator's pod.
type backends struct {
	netbox *backend.NetBox
	server *backend.Server
	// values of the chart add the IPAM server and set the allocator up.
	values []string
}

// The groups of the IPAM tests. The group of NetBox has many addresses: in a long test, no allocator
// lives until a sweep, so no address becomes free. Some more addresses are for Services that ask for
// an address. movedRange is also in NetBox. A group moves there.
const (
	netboxGroup   = "e2e-netbox"
	externalGroup = "e2e-external"
	movedRange    = "172.30.250.181-172.30.250.189"
)

// groups returns the manifests of the groups.
func (b backends) groups() string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: netbox-client, namespace: purelb-system}
stringData: {user-token: %[1]q}
---
apiVersion: purelb.io/v2
kind: ServiceGroup
metadata: {name: %[2]s, namespace: purelb-system}
spec:
  netbox:
    url: %[3]s
    announce: remote
    parents: [{range: {start: 10.255.16.1}}, {range: {start: 10.255.24.1}}, {range: {start: "fd00:10:255:3::1"}}]
---
apiVersion: purelb.io/v2
kind: ServiceGroup
metadata: {name: %[4]s, namespace: purelb-system}
spec:
  external: {provider: ipam-server, announce: remote}
`, backend.Token, netboxGroup, b.netbox.URL, externalGroup)
}

// quickSweeps are settings of the allocator for tests. It compares NetBox with the cluster every 10 s,
// and an address without a Service stays for 10 s.
var quickSweeps = []string{"PURELB_IPAM_SWEEP_INTERVAL=10s"}

// startBackends starts both backends, and adds the IPAM server to the allocator's pod. To shorten the
// tests, the allocator has the settings quickSweeps, and a killed allocator restarts at once.
func startBackends(t *testing.T) backends {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w := newWorldFor(t, timeOfKills(numberOfKills(t)))
	w.expect(uninstalling...) // each scene has a world that judges it
	w.empty()                 // removes the objects of an aborted test
	const port = 8010
	var b backends
	var err error
	b.netbox, err = backend.StartNetBox(ctx, lab.Cluster, lab.tree.Root, port, false, "-latency=20ms",
		"-range=10.255.16.1-10.255.23.254/21", "-range=10.255.24.1-10.255.24.254/24", "-range=fd00:10:255:3::1-fd00:10:255:3::ffff/64", "-range="+movedRange+"/24")
	must(err)
	t.Cleanup(func() { b.end(t) })
	b.server, err = backend.BuildServer(ctx, lab.Cluster, lab.tree.Root)
	must(err)
	must(b.server.Prepare(ctx, lab.kube, product.Namespace))
	must(b.server.Forget(ctx))
	digest, err := respawning(ctx, t.TempDir())
	must(err)
	b.values = append(b.server.Values(externalGroup+"=10.255.4.0/24", externalGroup+"=fd00:10:255:4::/112"), "image.digests.allocator="+digest)
	for i, setting := range quickSweeps {
		name, value, _ := strings.Cut(setting, "=")
		b.values = append(b.values, fmt.Sprintf("allocator.extraEnv[%d].name=%s", i, name), fmt.Sprintf("allocator.extraEnv[%d].value=%s", i, value))
	}
	w.setValues(lab.tree, b.values...)
	return b
}

// end removes the groups and the backends, and installs the product without changes.
func (b backends) end(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := lab.kube.Remove(ctx, b.groups()); err != nil {
		t.Error(err)
	}
	if err := lab.install(); err != nil {
		t.Error(err)
	}
	if err := b.netbox.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// respawning makes an image of the allocator that restarts a killed allocator at once. It builds the
// programs in dir.
func respawning(ctx context.Context, dir string) (digest string, err error) {
	respawn, allocator := filepath.Join(dir, "respawn"), filepath.Join(dir, "allocator")
	if err := build.Program(ctx, filepath.Join(lab.tree.Root, "lab"), "./cmd/respawn", respawn); err != nil {
		return "", err
	}
	if err := build.Program(ctx, lab.tree.Root, "./cmd/allocator", allocator); err != nil {
		return "", err
	}
	return lab.AddImage(ctx, product.Repository+"/allocator:respawning", respawn, allocator)
}

// backed is the world of an IPAM test.
type backed struct {
	*world
	backends
}

// world begins a test. The backends hold no addresses.
func (b backends) world(t *testing.T, busy time.Duration) backed {
	t.Helper()
	w := newWorldFor(t, busy+5*time.Minute)
	w.apply(b.groups())
	x := backed{w, b}
	x.clean()
	return x
}

// order sends NetBox a command.
func (b backed) order(name string, with ...string) {
	b.t.Helper()
	values := url.Values{}
	for _, w := range with {
		name, value, _ := strings.Cut(w, "=")
		values.Set(name, value)
	}
	if err := b.netbox.Order(b.ctx, name, values); err != nil {
		b.t.Fatal(err)
	}
}

// held returns the owner of each address that the backends hold: "NetBox e2e/web" or "IPAM
// server e2e/web".
func (b backed) held() map[netip.Addr]string {
	b.t.Helper()
	held := map[netip.Addr]string{}
	list, err := b.netbox.Addresses(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, a := range list {
		if other, twice := held[a.Address.Addr()]; twice {
			b.t.Errorf("NetBox has %s twice: for %s and %v", a.Address, other, a.Fields)
		}
		held[a.Address.Addr()] = "NetBox " + holderOf(a)
	}
	book, err := b.server.Book(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	for a, holder := range book {
		_, name, _ := strings.Cut(holder, " ")
		held[a] = "IPAM server " + name
	}
	return held
}

// holderOf returns the owner in the key of an address in NetBox.
func holderOf(a backend.Address) string {
	key, _ := a.Fields["purelb_claim"].(string)
	parts := strings.Split(key, "/")
	if len(parts) != 5 {
		return fmt.Sprintf("no claim (%v)", a.Fields)
	}
	return parts[1] + "/" + parts[2]
}

// noBackend stands for the backend of addresses that come from pools.
const noBackend = "no backend"

// shown returns the addresses in the statuses of Services, as held does. It fails the test if two
// Services have the same address.
func (b backed) shown() map[netip.Addr]string {
	b.t.Helper()
	var list corev1.ServiceList
	if err := b.List(b.ctx, &list, client.InNamespace(namespace)); err != nil {
		b.t.Fatal(err)
	}
	shown := map[netip.Addr]string{}
	for _, s := range list.Items {
		by := noBackend
		switch s.Annotations["purelb.io/service-group"] {
		case netboxGroup:
			by = "NetBox"
		case externalGroup:
			by = "IPAM server"
		}
		for _, a := range kube.Addresses(&s) {
			if other, twice := shown[a]; twice {
				b.t.Errorf("two Services have the address %s: %s and %s/%s", a, other, namespace, s.Name)
			}
			shown[a] = by + " " + namespace + "/" + s.Name
		}
	}
	return shown
}

// agree waits until the backends hold exactly the addresses of the Services.
func (b backed) agree() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 2*patience)
	defer cancel()
	err := kube.Until(ctx, func() (string, bool) {
		held, shown := b.held(), b.shown()
		maps.DeleteFunc(shown, func(_ netip.Addr, who string) bool { return strings.HasPrefix(who, noBackend) })
		return fmt.Sprintf("the backends hold %v, and the Services have %v", held, shown), maps.Equal(held, shown)
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// clean waits until the backends hold no addresses.
func (b backed) clean() {
	b.t.Helper()
	b.until(2*patience, "the backends hold nothing", func() bool { return len(b.held()) == 0 })
}

// has waits until each Service has both of its addresses.
func (b backed) has(names ...string) map[string][]netip.Addr {
	b.t.Helper()
	has := map[string][]netip.Addr{}
	for _, name := range names {
		has[name] = b.addresses(name, 2)
	}
	return has
}

// keeps fails the test if a Service no longer has its addresses.
func (b backed) keeps(had map[string][]netip.Addr) {
	b.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(had)) {
		if now := kube.Addresses(b.service(name)); !equal(now, had[name]) {
			b.t.Errorf("%s had %v, and has %v", name, had[name], now)
		}
	}
}

// allocator returns the process of the allocator. ipamServer returns the process of the IPAM server
// in the same pod.
func (b backed) allocator() (pid int)  { return b.process("allocator", "PURELB_POD_NAME=") }
func (b backed) ipamServer() (pid int) { return b.process("ipam-server", "HOSTNAME=") }

func (b backed) process(program, variable string) (pid int) {
	b.t.Helper()
	b.until(patience, "the "+program+" runs", func() (ok bool) {
		pod, ok := b.productPod("allocator", "")
		if ok {
			pid, ok = processOf(program, variable+pod.Name)
		}
		return ok
	})
	return pid
}
