package e2e

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"purelb.io/purelb/lab/kube"
	"purelb.io/purelb/lab/router"
)

// Promise: moving in and out loses nothing. A Service keeps its addresses, the node and the MAC address that
// answer for them, and its connections, when PureLB takes it over from another load balancer, and back.

// mover is a number of Services that move, and what the router learns of their addresses.
type mover struct {
	*watched
	services []string
	learned  map[netip.Addr]map[string]bool
}

// move watches the addresses of these Services.
func (w *world) move(services ...string) (m *mover, stop func()) {
	w.t.Helper()
	var addresses []netip.Addr
	for _, name := range services {
		for _, a := range w.addresses(name, families()) {
			if !slices.Contains(addresses, a) {
				addresses = append(addresses, a)
			}
		}
	}
	return w.moveAddresses(addresses, services...)
}

// moveAddresses watches some addresses of these Services. The router forgets them again and again, as if its
// neighbor entries aged.
func (w *world) moveAddresses(addresses []netip.Addr, services ...string) (m *mover, stop func()) {
	w.t.Helper()
	m = &mover{watched: &watched{world: w, addresses: addresses}, services: services, learned: map[netip.Addr]map[string]bool{}}
	w.answers(m.addresses...)
	m.begin()
	ctx, cancel := context.WithCancel(w.ctx)
	var watching sync.WaitGroup
	watching.Go(func() { m.learn(ctx) })
	return m, func() {
		cancel()
		watching.Wait()
	}
}

// learn records what the router learns.
func (m *mover) learn(ctx context.Context) {
	for n := 1; ctx.Err() == nil; n++ {
		known, err := router.Neighbors(lab.Netns("router"))
		if err != nil {
			m.t.Error(err)
			return
		}
		for _, a := range m.addresses {
			if mac := known[a]; mac != "" {
				if m.learned[a] == nil {
					m.learned[a] = map[string]bool{}
				}
				m.learned[a][mac] = true
			}
			if n%20 == 0 {
				if err := router.Forget(lab.Netns("router"), a); err != nil {
					m.t.Error(err)
				}
			}
		}
		time.Sleep(50 * time.Millisecond) // the interval of the measurement
	}
}

// joined waits until PureLB has all addresses on node, and has named it.
func (m *mover) joined(node string) {
	m.t.Helper()
	for _, a := range m.addresses {
		m.until(patience, a.String()+" is on "+node, func() bool { return slices.Equal(slices.Compact(m.holderNodes(a)), []string{node}) })
	}
	for _, name := range m.services {
		m.until(patience, name+" names "+node, func() bool {
			notes := m.service(name).Annotations
			return strings.HasPrefix(notes["purelb.io/announcing-IPv4"], node+",") && (families() == 1 || strings.HasPrefix(notes["purelb.io/announcing-IPv6"], node+","))
		})
	}
}

// left waits until PureLB has no address any more.
func (m *mover) left() {
	m.t.Helper()
	for _, a := range m.addresses {
		m.until(patience, "no node has "+a.String(), func() bool { return len(m.holderNodes(a)) == 0 })
	}
}

// finish ends the watch. It fails the test if more than may was lost, or if the router learned
// more than one MAC address for an address.
func (m *mover) finish(stop func(), had map[string][]netip.Addr, may loss) {
	m.t.Helper()
	m.rest(patience)
	stop()
	m.end(may)
	for a, macs := range m.learned {
		if len(macs) != 1 {
			m.t.Errorf("the router learned %v for %s, want one MAC address", slices.Sorted(maps.Keys(macs)), a)
		}
	}
	for name, addresses := range had {
		if now := kube.Addresses(m.service(name)); !slices.Equal(now, addresses) {
			m.t.Errorf("%s had %v and has %v", name, addresses, now)
		}
	}
}

// shown returns the addresses of the Services.
func (m *mover) shown() map[string][]netip.Addr {
	m.t.Helper()
	all := map[string][]netip.Addr{}
	for _, name := range m.services {
		all[name] = kube.Addresses(m.service(name))
	}
	return all
}

// vip adds an address to node-1 as kube-vip does, or removes it.
func (m *mover) vip(verb string, a netip.Addr) {
	m.t.Helper()
	line := "ip address " + verb + " " + host(a).String() + " dev eth0"
	if a.Is6() && verb == "add" {
		line += " nodad"
	}
	m.exec("node-1", line)
}

// ofKubeVIP is the ConfigMap of kube-vip's cloud provider.
const ofKubeVIP = `
apiVersion: v1
kind: ConfigMap
metadata: {name: kubevip, namespace: kube-system}
data: {range-global: "172.30.250.211-172.30.250.212,2001:db8:1:250:d::1-2001:db8:1:250:d::2"}
`

// kube-vip has the addresses on the link of node-1, with single masks. The test plays its part. It does not remove
// the IPv6 address while connections are watched: kube-proxy masquerades them with an address of that link, also
// with this one, and the kernel ends them with their address, whatever program has it.
func TestServicesMoveInFromKubeVIPWithoutLoss(t *testing.T) {
	w := newWorld(t)
	p := &troubled{w, buildPlugin(t)}
	w.expect("addressConflict") // until node-1 no longer says that the address is its own
	const page = "kube-vip.md"
	addresses := []netip.Addr{netip.MustParseAddr("172.30.250.211"), netip.MustParseAddr("2001:db8:1:250:d::1")}[:families()]
	p.install(page, "helm install purelb CHART --namespace purelb-system --create-namespace --set defaultAnnouncer=none", func() {
		w.apply(ofKubeVIP, echo("web", 2, "node-3", "node-4"), annotated(service("one", "kube-vip-global"), "kube-vip.io/vipHost: node-1"))
		t.Cleanup(func() { w.remove(ofKubeVIP) })
		w.shows("one", addresses...)
		for _, a := range addresses {
			(&mover{watched: &watched{world: w}}).vip("add", a)
		}
		t.Cleanup(func() {
			for _, a := range addresses { // if the test failed before
				_, _ = lab.Exec(context.Background(), "node-1", "ip", "address", "del", host(a).String(), "dev", "eth0")
			}
		})
	})
	w.servesOurs("fresh")
	p.translate(page, "kubectl purelb import kube-vip > purelb.yaml")
	m, stop := w.move("one")
	had := m.shown()
	for _, a := range m.addresses {
		if nodes := m.oursOn(a); len(nodes) > 0 {
			t.Errorf("PureLB has %s on %v, and nobody has asked for that", a, nodes)
		}
	}
	p.follow(page, "kubectl purelb adopt -A --from kube-vip --dry-run")
	p.follow(page, "kubectl purelb adopt -A --from kube-vip")
	for _, a := range m.addresses {
		m.until(patience, "PureLB has "+a.String()+" on node-1", func() bool { return slices.Equal(m.oursOn(a), []string{"node-1"}) })
	}
	m.joined("node-1")
	m.vip("del", m.addresses[0])
	m.finish(stop, had, nothing)
	for _, a := range m.addresses[1:] {
		m.vip("del", a)
	}
	m.answers(m.addresses...)
	m.joined("node-1")
	p.follow(page, "helm upgrade purelb CHART --namespace purelb-system --reset-then-reuse-values --set defaultAnnouncer=PureLB")

	// And back. kube-vip adds its IPv6 address when PureLB has removed its own one.
	kubectl(w, "--namespace", namespace, "delete", "service", "fresh") // no other controller serves its class
	m, stop = w.moveAddresses(addresses[:1], "one")
	m.vip("add", addresses[0])
	p.follow(page, "kubectl purelb leave -A")
	for _, a := range addresses {
		m.until(patience, "PureLB has left "+a.String(), func() bool { return len(m.oursOn(a)) == 0 })
	}
	for _, a := range addresses[1:] {
		m.vip("add", a)
	}
	m.finish(stop, had, nothing)
	m.answers(addresses...)
	for _, a := range addresses {
		if nodes := m.holderNodes(a); !slices.Equal(nodes, []string{"node-1"}) {
			t.Errorf("%s is on %v, want node-1, where kube-vip has it", a, nodes)
		}
	}
}

// oursOn returns the nodes that have a as PureLB does: with the mask of its network, or deprecated.
func (m *mover) oursOn(a netip.Addr) (nodes []string) {
	m.t.Helper()
	for _, n := range lab.Nodes() {
		out, err := lab.Exec(m.ctx, n.Name, "ip", "-o", "address", "show", "to", a.String())
		if err != nil {
			m.t.Fatal(err)
		}
		if strings.Contains(out, a.String()+"/24 ") || a.Is6() && strings.Contains(out, "deprecated") {
			nodes = append(nodes, n.Name)
		}
	}
	return nodes
}
