package e2e

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/probe"
	"purelb.io/purelb/lab/product"
)

// Promise: agents, nodes and the API server go away, and local addresses are
// answered all the same: by one node, and by another one soon if that is gone.

// watched is a Service with local addresses, one of each family, that a client
// probes behind a router.
type watched struct {
	*world
	addresses []netip.Addr
	probes    []*probe.Probe
}

// watchLocal makes a Service on the nodes of the first segment, with its servers
// on the others: Kubernetes goes on sending to servers of a dead node for as
// long as it takes it for ready.
func watchLocal(w *world, spec ...string) *watched {
	w.t.Helper()
	w.apply(echo("web", 2, "node-3", "node-4"), service("web", "local", spec...))
	s := &watched{world: w, addresses: w.addresses("web", 2)}
	w.answers(s.addresses...)
	return s
}

func (s *watched) begin() {
	s.t.Helper()
	s.probes = nil
	for _, a := range s.addresses {
		s.probes = append(s.probes, s.probe(a))
	}
}

// lost ends the probes: each may have lost so many.
func (s *watched) lost(most int) {
	s.t.Helper()
	for i, p := range s.probes {
		result := p.Stop()
		s.t.Logf("%s: %s", s.addresses[i], result)
		if result.Lost() > most || result.Sent < 100 {
			s.t.Errorf("%s: %s; want at most %d lost", s.addresses[i], result, most)
		}
	}
}

// holder waits until one node carries each address, and returns that of the
// first.
func (s *watched) holder() string {
	s.t.Helper()
	for _, a := range s.addresses {
		s.until(30*time.Second, "one node carries "+a.String(), func() bool { return len(s.holders(a)) == 1 })
	}
	return s.holders(s.addresses[0])[0].node
}

// elsewhere waits until one node that is not node carries each address.
func (s *watched) elsewhere(node string) {
	s.t.Helper()
	for _, a := range s.addresses {
		s.until(60*time.Second, a.String()+" is on another node than "+node, func() bool {
			holders := slices.DeleteFunc(s.holders(a), func(h holder) bool { return !lab.Running(h.node) })
			return len(holders) == 1 && holders[0].node != node
		})
	}
}

func kubectl(w *world, args ...string) {
	w.t.Helper()
	if out, err := lab.Exec(w.ctx, cluster.ControlPlane, append([]string{"kubectl"}, args...)...); err != nil {
		w.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestAnAgentThatIsKilledLosesNothing(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	if !w.killProcess("lbnodeagent", "PURELB_NODE_NAME="+holder) {
		t.Fatal("there is no agent to kill")
	}
	w.agentReady(holder)
	time.Sleep(3 * time.Second) // for those who would take the address
	s.lost(0)
	if now := s.holder(); now != holder {
		t.Errorf("the address moved from %s to %s", holder, now)
	}
}

func TestARolloutOfTheAgentsLosesNothing(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	kubectl(w, "rollout", "restart", "daemonset/lbnodeagent", "--namespace", product.Namespace)
	kubectl(w, "rollout", "status", "daemonset/lbnodeagent", "--namespace", product.Namespace, "--timeout=2m")
	s.lost(0)
	if now := s.holder(); now != holder {
		t.Errorf("the address moved from %s to %s", holder, now)
	}
}

func TestADrainMovesAddressesWithoutAGap(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	const label = "node.kubernetes.io/exclude-from-external-load-balancers"
	t.Cleanup(func() { kubectl(w, "label", "node", holder, label+"-") })
	s.begin()
	kubectl(w, "label", "node", holder, label+"=true")
	s.elsewhere(holder)
	time.Sleep(time.Second)
	s.lost(5) // 50 ms
	kubectl(w, "label", "node", holder, label+"-")
	time.Sleep(3 * time.Second)
	s.elsewhere(holder) // a node that comes back takes nothing
}

func TestAnAgentThatIsDeletedHandsOver(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	w.restartAgent(holder)
	time.Sleep(2 * time.Second)
	s.lost(5)
	s.holder()
}

func TestThePowerLossOfANodeIsOverInASecondWhileTheAPIServerIsAway(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	hang := func(sig syscall.Signal) {
		if err := lab.Signal(cluster.ControlPlane, "kube-apiserver", sig); err != nil {
			t.Fatal(err)
		}
	}
	hang(syscall.SIGSTOP)
	resumed := false
	t.Cleanup(func() {
		if !resumed {
			hang(syscall.SIGCONT)
		}
	})
	time.Sleep(15 * time.Second)
	for i, p := range s.probes {
		if r := p.Stop(); r.Lost() > 0 {
			t.Errorf("%s without the API server: %s", s.addresses[i], r)
		}
	}
	s.begin()
	lab.crash(t, holder)
	s.elsewhere(holder)
	time.Sleep(2 * time.Second)
	for i, p := range s.probes {
		r := p.Stop()
		t.Logf("%s: %s", s.addresses[i], r)
		if r.LongestGap > 3*time.Second {
			t.Errorf("%s: %s; want it back in about a second", s.addresses[i], r)
		}
	}
	hang(syscall.SIGCONT)
	resumed = true
	w.freshAllocator() // the other ended when it could not renew its lead
	lab.boot(t, holder)
	w.agentReady(holder)
	s.elsewhere(holder)
}

func TestBlockedGossipLosesNothing(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	s.begin()
	for _, n := range lab.powered() {
		block(w, n)
		t.Cleanup(func() { unblock(w, n) })
	}
	time.Sleep(25 * time.Second) // longer than a Lease
	s.lost(0)
	if now := s.holder(); now != holder {
		t.Errorf("the address moved from %s to %s", holder, now)
	}
}

// block drops what agents of a node say to each other.
func block(w *world, node string) {
	w.t.Helper()
	const rules = "add table inet e2e; add chain inet e2e in {type filter hook input priority -300;}; " +
		"add rule inet e2e in udp dport 7934 drop; add rule inet e2e in tcp dport 7934 drop; " +
		"add chain inet e2e out {type filter hook output priority -300;}; " +
		"add rule inet e2e out udp dport 7934 drop; add rule inet e2e out tcp dport 7934 drop"
	if out, err := lab.Exec(w.ctx, node, "nft", rules); err != nil {
		w.t.Fatal(err, out)
	}
}

// unblock undoes block, which is undone perhaps.
func unblock(w *world, node string) {
	w.t.Helper()
	if out, err := lab.Exec(w.ctx, node, "nft", "add table inet e2e; delete table inet e2e"); err != nil {
		w.t.Error(err, out)
	}
}

func TestANetworkCardThatGoesDownHandsOver(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	holder := s.holder()
	nic := s.holders(s.addresses[0])[0].link
	plug := func(in bool) {
		if err := lab.SetPort(holder, nic, in); err != nil {
			t.Fatal(err)
		}
	}
	s.begin()
	plug(false)
	t.Cleanup(func() { plug(true) })
	s.until(30*time.Second, "the client is answered again", func() bool {
		for _, a := range s.addresses {
			if w.visit(netip.AddrPortFrom(a, 80), 3) != nil {
				return false
			}
		}
		return true
	})
	for i, p := range s.probes {
		t.Logf("%s: %s", s.addresses[i], p.Stop())
	}
	plug(true)
	s.elsewhere(holder)
	w.answers(s.addresses...)
}

func TestAForeignHostThatTakesAnAddressIsNamed(t *testing.T) {
	w := newWorld(t)
	s := watchLocal(w)
	v4 := s.addresses[slices.IndexFunc(s.addresses, netip.Addr.Is4)]
	nic, mac := stranger(w, v4)
	router := func(argv ...string) {
		if out, err := lab.Exec(w.ctx, "router", argv...); err != nil {
			t.Fatalf("%v: %v %s", argv, err, out)
		}
	}
	router("ip", "address", "add", v4.String()+"/32", "dev", nic)
	t.Cleanup(func() { router("ip", "address", "delete", v4.String()+"/32", "dev", nic) })
	// Whatever it sends from there to somebody whom it does not know makes it
	// ask the segment, in the name of the address.
	nobody := netip.AddrPortFrom(netip.MustParseAddr("172.30.250.99"), 9)
	err := probe.In(lab.Netns("router"), func() error {
		conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(v4, 0)), net.UDPAddrFromAddrPort(nobody))
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("hello"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.says("web", "AddressConflict", mac)
	if holders := s.holders(v4); len(holders) != 1 {
		t.Errorf("a stranger says that it has %s, and it is on %v", v4, holders)
	}
}

// stranger is the interface of the router, which is none of the product's
// machines, on the segment of a, and its hardware address.
func stranger(w *world, a netip.Addr) (nic, mac string) {
	w.t.Helper()
	m, err := lab.Machine("router")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, n := range m.NICs {
		if n.V4.Masked().Contains(a) {
			return n.Name, n.MAC().String()
		}
	}
	w.t.Fatalf("the router is not on the segment of %s", a)
	return "", ""
}
