package e2e

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/lab/cluster"
)

// Promise: a network manager of the node that takes addresses, links or routes off moves nothing, and
// what it took off is back at once.

// briefly is the allowance for each time that a network manager takes an address off: 50 ms of silence.
// Datagrams are lost also while the node has no address of its own.
var briefly = loss{probes: 20 * 60, silence: 50 * time.Millisecond, cut: true}

// nicOf returns the link of a node with its own addresses, and these addresses.
func nicOf(w *world, node string) (link string, v4, v6 netip.Prefix) {
	w.t.Helper()
	m, err := lab.Machine(node)
	if err != nil {
		w.t.Fatal(err)
	}
	return m.NICs[0].Carrier(), m.NICs[0].V4, m.NICs[0].V6
}

// forgets restarts the agent of a node when the test ends. Otherwise its node goes on to warn of the network
// manager for ten minutes, which other scenes would see.
func (w *world) forgets(node string) {
	w.t.Helper()
	w.t.Cleanup(func() { w.restartAgent(node) })
}

func TestANetworkManagerThatFlushesMovesNothing(t *testing.T) {
	w := newWorldFor(t, time.Minute)
	w.net.anything = true // the node loses its connections again and again
	s := watchLocal(w)
	holder := s.holder()
	w.forgets(holder)
	link, v4, v6 := nicOf(w, holder)
	s.begin()
	back := fmt.Sprintf("ip addr replace %[2]s dev %[1]s; ip addr replace %[3]s dev %[1]s nodad", link, v4, v6)
	// The agent puts its addresses back while ip flushes, and ip gives up after ten rounds.
	w.shell(holder, fmt.Sprintf(`kept=$(ip -4 route show dev %[1]s | grep -v 'proto kernel')
		for i in $(seq 20); do
			ip addr flush dev %[1]s scope global || true
			sleep 0.3
			%[2]s
			echo "$kept" | while read -r route; do ip route replace $route dev %[1]s; done
			sleep 0.7
		done`, link, back), back)
	s.rest(patience)
	s.end(briefly)
	s.stays(holder)
	w.answers(s.addresses...)
}

func TestANetworkManagerThatPrunesMovesNothing(t *testing.T) {
	w := newWorldFor(t, time.Minute)
	w.expect("configProblem") // the agent names the program
	s := watchLocal(w)
	holder := s.holder()
	w.forgets(holder)
	s.begin()
	var off strings.Builder
	for _, a := range s.addresses { // those that this node has
		fmt.Fprintf(&off, "set -- $(ip -o addr show to %s); [ $# = 0 ] || ip addr del $4 dev $2; ", a)
	}
	w.shell(holder, "for i in $(seq 20); do "+off.String()+"sleep 1; done", "true")
	s.rest(patience)
	s.end(loss{probes: 20 * 5, silence: 50 * time.Millisecond})
	s.stays(holder)
}

// comesBack runs a script on a node ten times, and fails the test if condition is not true again within
// 100 ms.
func (w *world) comesBack(node, what, script, condition string) {
	w.t.Helper()
	out, err := lab.Exec(w.ctx, node, "sh", "-ec", fmt.Sprintf(`for i in $(seq 10); do
		%s
		began=$(date +%%s%%N)
		for n in $(seq 2000); do if %s; then break; fi; sleep 0.002; done
		echo $(( ($(date +%%s%%N) - began) / 1000000 ))
		sleep 1
	done`, script, condition))
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", what, err, out)
	}
	w.t.Logf("%s: back after %s ms", what, strings.Join(strings.Fields(out), " "))
	for text := range strings.FieldsSeq(out) {
		if ms, err := strconv.Atoi(text); err != nil || ms > 100 {
			w.t.Errorf("%s: back after %s ms, want at most 100", what, text)
		}
	}
}

func TestTheLinkForRemoteAddressesIsBackAtOnce(t *testing.T) {
	w := newWorldFor(t, time.Minute)
	w.expect("configProblem")
	w.forgets("node-2")
	addresses := w.remote()
	w.everywhere(addresses...)
	var answered []string
	for _, a := range addresses {
		answered = append(answered, fmt.Sprintf("ip route get %s 2>&1 | grep -q ^local", a))
	}
	there := strings.Join(answered, " && ")
	w.comesBack("node-2", "set down", "ip link set kube-lb0 down", there)
	w.comesBack("node-2", "deleted", "ip link del kube-lb0", there)
	w.everywhere(addresses...)
	w.answers(addresses...)
}

func TestLearnedRoutesAreBackAtOnce(t *testing.T) {
	w := newWorldFor(t, time.Minute)
	const network = "198.18.77.0/24"
	vtysh := func(line string) string {
		return fmt.Sprintf("vtysh -c 'configure terminal' -c 'router bgp 64514' -c 'address-family ipv4 unicast' -c '%s network %s'", line, network)
	}
	w.shell(cluster.Router, "ip route add blackhole "+network+"; "+vtysh(""), vtysh("no")+"; ip route del blackhole "+network)
	w.apply(strings.Replace(peering(withBFD), "spec:\n", "spec:\n  netlinkExport: {enabled: true, rules: [{name: all}]}\n", 1))
	t.Cleanup(func() { w.apply(peering(withBFD)) })
	learned := fmt.Sprintf("ip -4 route show proto 186 | grep -q ^%s", network)
	w.until(patience, "the node has the learned route", func() bool {
		_, err := lab.Exec(w.ctx, "node-2", "sh", "-c", learned)
		return err == nil
	})
	w.comesBack("node-2", "flushed", "ip route flush proto 186", learned)
}
