package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/lab/product"
)

// Promise: a node that answers for an address that it does not hold does not block another node
// from taking the address.

// With kube-proxy in IPVS mode and without strictARP, every node has each address on kube-ipvs0, and
// its kernel answers for it. The kernel of the lab has no IPVS, so a bridge replaces that link.
func TestNodesThatAnswerByMistakeDoNotBlock(t *testing.T) {
	w := newWorld(t)
	w.expect("configProblem") // ARPNotStrict
	s := watchLocal(w)
	const services, limit = 4, patience / 6
	expected := []netip.Addr{s.addresses[0]} // the address, and the next ones of the pool
	for range services {
		expected = append(expected, expected[len(expected)-1].Next())
	}
	for _, node := range lab.powered() {
		w.answersByMistake(node, expected)
	}
	began := time.Now()
	for i := range services {
		w.apply(service(fmt.Sprintf("new-%d", i), "local"))
	}
	for i := range services {
		for _, a := range w.addresses(fmt.Sprintf("new-%d", i), families()) {
			if a.Is4() && !strings.Contains(fmt.Sprint(expected), a.String()) {
				t.Fatalf("a new Service has %s, want one of the addresses on kube-ipvs0: %v", a, expected)
			}
			if !w.answeredByOne(a, began.Add(limit)) {
				t.Errorf("%s is on %v after %s", a, w.holders(a), limit)
			}
		}
	}
	t.Logf("new addresses are announced after %s", time.Since(began).Round(10*time.Millisecond))

	holder := s.holder()
	began = time.Now()
	w.crash(holder)
	w.until(limit, "the addresses of "+holder+" are on the next node", func() bool {
		holders := s.holders(s.addresses[0])
		return len(holders) == 1 && holders[0].node == other(t, holder)
	})
	t.Logf("the address of a node without power is on the next node after %s", time.Since(began).Round(10*time.Millisecond))
	s.elsewhere(holder)
	s.answers(s.addresses...)
	s.eventuallyIn(product.Namespace, "ARPNotStrict")
	lab.boot(t, holder)
	w.agentReady(holder)
}

// answersByMistake makes the kernel of node answer for addresses until the test ends.
func (w *world) answersByMistake(node string, addresses []netip.Addr) {
	w.t.Helper()
	script := []string{"ip link add " + ipvsLink + " type bridge", "ip link set " + ipvsLink + " up"}
	for _, a := range addresses {
		script = append(script, fmt.Sprintf("ip addr add %s/32 dev %s", a, ipvsLink))
	}
	do := func(script ...string) {
		if !lab.Running(node) {
			return
		}
		if out, err := lab.Exec(w.ctx, node, "sh", "-ec", strings.Join(script, "\n")); err != nil {
			w.t.Errorf("%s: %v %s", node, err, out)
		}
	}
	do(append(script, "sysctl -qw net.ipv4.conf.all.arp_ignore=0")...)
	w.undoable(func() { // a node that was off has lost this link
		do("sysctl -qw net.ipv4.conf.all.arp_ignore=1", "if ip link show "+ipvsLink+" >/dev/null 2>&1; then ip link del "+ipvsLink+"; fi")
	})
}
