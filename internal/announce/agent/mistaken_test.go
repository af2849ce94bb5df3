package agent

import (
	"slices"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

const notStrict = "Warning ARPNotStrict Node node-a answers ARP for addresses of Services that it does not hold: " +
	"kube-proxy in IPVS mode has them on kube-ipvs0; set strictARP: true in its configuration (ipvs.strictARP), " +
	"or net.ipv4.conf.all.arp_ignore to 1 on the node"

func TestANodeThatAnswersByMistakeWarnsUntilThatIsMended(t *testing.T) {
	mistaken := func(w *world) {
		w.kernel.looseARP = true
		w.cluster.snapshot.Agents[0].Spec.Local.ProtectNode = new(bool)
		w.kernel.links = append(w.kernel.links, announce.Link{Name: "kube-ipvs0", Index: 8, Up: true})
		w.kernel.hold(permanent("kube-ipvs0", "192.0.2.10/32"))
	}
	for name, mend := range map[string]func(k *fakeKernel){
		"arp_ignore is 1": func(k *fakeKernel) { k.looseARP = false },
		"kube-proxy uses no IPVS": func(k *fakeKernel) {
			k.links = slices.DeleteFunc(k.links, func(l announce.Link) bool { return l.Name == "kube-ipvs0" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, mistaken, func(w *world) {
				w.serve(branded("web", "203.0.113.7"))
				pass(time.Minute)
				lacks(t, "the events with a remote address", w.reported(), "ARPNotStrict")
				w.serve(branded("web", "192.0.2.9"))
				expect.Contains(t, "events", w.reported(), notStrict)
				links := slices.Clone(w.kernel.links)
				w.kernel.change(func() { mend(w.kernel) })
				pass(time.Hour)
				expect.Equal(t, "events, when the kernel does not answer", w.reported(), "")
				w.kernel.change(func() { w.kernel.looseARP, w.kernel.links = true, links })
				pass(time.Hour)
				expect.Equal(t, "events, when it happens again", w.reported(), notStrict)
			})
		})
	}
}

// The next node announces the address before this one has removed it.
func TestAClaimOfTheNextNodeIsNoConflict(t *testing.T) {
	holdingBoth(t, true, func(w *world) {
		b := reachable("node-b")
		w.peers.change(func(p *election.Peers) {
			p.Members = append(p.Members, b)
			p.MACs = map[[6]byte]string{someMAC: "node-b"}
		})
		pass(time.Minute)
		w.reported()
		w.kernel.changes()
		w.cluster.change(excluded)
		settle()
		expect.Equal(t, "messages", len(w.peers.messages()), 1)
		w.kernel.heard <- heard("192.0.2.9", 7)
		settle()
		lacks(t, "the changes of the agent", w.kernel.changes(), "claim")
		lacks(t, "the events", w.reported(), "AddressConflict")
		pass(time.Minute)
	})
}
