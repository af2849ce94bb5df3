package agent

import (
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/internal/election"
)

// cutOffWith gives node-a the addresses of web. Then node-a loses the API server and node-b,
// and cannot know whether node-b is alive.
func cutOffWith(t *testing.T, test func(*world)) {
	inWorld(t, nil, func(w *world) {
		w.cluster.change(serving(branded("web", "192.0.2.9", "2001:db8::9")))
		pass(time.Second)
		want(t, "kernel, before", w.kernel.String(), bothAddresses)
		w.peers.change(func(p *election.Peers) {
			p.Members = append(p.Members, peer("node-b"))
			p.Own = ownedBy("node-b", "192.0.2.2", "2001:db8::2")
			p.Trusted, p.CutOff = false, true
		})
		test(w)
	})
}

func TestTheLastLiveNodeKeepsItsAddresses(t *testing.T) {
	cutOffWith(t, func(w *world) {
		pass(time.Hour)
		want(t, "kernel", w.kernel.String(), bothAddresses)
	})
}

func TestACutOffNodeYieldsWhenNoMachineAnswers(t *testing.T) {
	cutOffWith(t, func(w *world) {
		router := netip.MustParseAddr("192.0.2.254")
		w.kernel.change(func() { w.kernel.gateways, w.kernel.answers[router.String()] = []netip.Addr{router}, someMAC })
		pass(time.Hour)
		want(t, "kernel, while a gateway answers", w.kernel.String(), bothAddresses)
		w.kernel.change(func() { clear(w.kernel.answers) })
		pass(time.Minute)
		want(t, "kernel, when no machine answers", w.kernel.String(), "")
	})
}

func TestACutOffNodeYieldsWhenAnotherNodeAnswers(t *testing.T) {
	cutOffWith(t, func(w *world) {
		pass(time.Minute)
		want(t, "kernel, while no node answers", w.kernel.String(), bothAddresses)
		w.kernel.change(func() { w.kernel.answers["192.0.2.2"] = someMAC })
		pass(2 * time.Second)
		want(t, "kernel, when a node answers", w.kernel.String(), "")
		w.kernel.change(func() { clear(w.kernel.answers) })
		pass(time.Hour)
		want(t, "kernel, while this node is cut off", w.kernel.String(), "")
		w.peers.change(func(p *election.Peers) { p.Trusted, p.CutOff, p.Members = true, false, p.Members[:1] })
		pass(2 * time.Second)
		want(t, "kernel, when the other node is known to be gone", w.kernel.String(), bothAddresses)
		w.peers.change(func(p *election.Peers) {
			p.Trusted, p.CutOff, p.Members = false, true, append(p.Members, peer("node-b"))
		})
		pass(time.Minute)
		want(t, "kernel, when it is cut off again", w.kernel.String(), bothAddresses)
	})
}
