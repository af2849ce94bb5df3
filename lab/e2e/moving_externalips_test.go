package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/lab/cluster"
)

// A static route of the router leads the traffic for an external IP to node-1. The Service then gets the same address
// from PureLB, and goes back.
func TestAServiceMovesInFromExternalIPsWithoutLoss(t *testing.T) {
	w := newWorld(t)
	p := &troubled{w, buildPlugin(t)}
	const page = "externalips.md"
	a := netip.MustParseAddr("172.30.250.161")
	node, _ := lab.Spec.Plan.Machine("node-1")
	lead := func(verb string) {
		w.exec(cluster.Router, fmt.Sprintf("ip route %s %s via %s", verb, host(a), node.V4()))
	}
	ofPage := []string{"192.0.2.10", a.String(), "service web", "--namespace e2e service web", "default/web", "e2e/web"}
	follow := func(command string) {
		t.Helper()
		p.follow(page, command, ofPage...)
	}
	p.install(page, "helm install purelb CHART --namespace purelb-system --create-namespace", func() {
		w.apply(echo("web", 2, "node-3", "node-4"), strings.NewReplacer("type: LoadBalancer", "type: ClusterIP\n  externalIPs: ["+a.String()+"]",
			string(familyPolicy()), "SingleStack").Replace(service("web", "local")))
		lead("replace")
		w.undoable(func() { _, _ = lab.Exec(w.ctx, cluster.Router, "ip", "route", "del", host(a).String()) })
		w.answers(a)
	})
	clients, visitors := w.spray([]netip.Addr{a}), w.visitors(a)
	follow("kubectl annotate service web purelb.io/addresses=192.0.2.10")
	follow(`kubectl patch service web --type merge -p '{"spec":{"type":"LoadBalancer"}}'`)
	if got := w.addresses("web", 1); !slices.Equal(got, []netip.Addr{a}) {
		t.Fatalf("the Service has %v, want %s", got, a)
	}
	w.until(patience, "a node has the address, and says so", func() bool {
		return len(w.holders(a)) == 1 && strings.Contains(w.service("web").Annotations["purelb.io/announcing-IPv4"], a.String())
	})
	follow("kubectl purelb explain service default/web")
	follow("kubectl purelb probe 192.0.2.10")
	lead("del")
	time.Sleep(time.Second) // clients go on
	follow(`kubectl patch service web --type merge -p '{"spec":{"externalIPs":null}}'`)
	time.Sleep(2 * time.Second) // a late loss counts too

	// And back.
	follow(`kubectl patch service web --type merge -p '{"spec":{"externalIPs":["192.0.2.10"]}}'`)
	lead("replace")
	time.Sleep(time.Second) // kube-proxy has both
	follow(`kubectl patch service web --type merge -p '{"spec":{"type":"ClusterIP"}}'`)
	w.until(patience, "no node has the address", func() bool { return len(w.holders(a)) == 0 })
	time.Sleep(2 * time.Second) // a late loss counts too
	visitors.lost("moving in from externalIPs, and back", mostReset)
	if lost, sent := clients.lost(); lost > 0 {
		t.Errorf("clients lost %d of %d datagrams", lost, sent)
	} else {
		t.Logf("clients lost none of %d datagrams", sent)
	}
}
