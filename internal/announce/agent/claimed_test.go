package agent

import (
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/testing/expect"
)

// elsewhere gives web another address, for which no machine answers.
func elsewhere(s *objects) { serving(branded("web", "192.0.2.10"))(s) }

// The previous agent reported two machines. One of them still answers.
func TestRestartAsksAgainForReportedMachines(t *testing.T) {
	const both = "[192.0.2.9=02:00:00:00:00:07 192.0.2.10=02:00:00:00:00:07]"
	inWorld(t, func(w *world) {
		for _, ip := range []string{"192.0.2.9", "192.0.2.10"} {
			w.peers.inherited = append(w.peers.inherited, lease.Heard{Claim: lease.Claim{Addr: addrOf(ip), MAC: someMAC}, At: time.Now().Add(-4 * time.Minute)})
		}
		w.kernel.answers["192.0.2.9"] = someMAC
	}, func(w *world) {
		settle()
		expect.Equal(t, "reports at the start", w.peers.reports(), both)
		pass(5 * time.Minute)
		expect.Equal(t, "reports nine minutes after the last answers", w.peers.reports(), both)
		pass(2 * time.Minute)
		expect.Equal(t, "reports eleven minutes after the last answers", w.peers.reports(), "[192.0.2.9=02:00:00:00:00:07]")
		pass(time.Hour)
		expect.Equal(t, "reports while one machine answers", w.peers.reports(), "[192.0.2.9=02:00:00:00:00:07]")
		expect.Equal(t, "events about earlier reports", w.reported(), "")
	})
}

func TestAnotherMachineEndsTheReportOfTheFirst(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.kernel.answers["192.0.2.9"] = someMAC
		w.cluster.change(serving(branded("web", "192.0.2.9")))
		pass(10 * time.Second)
		w.cluster.change(elsewhere)
		w.kernel.change(func() { w.kernel.answers["192.0.2.9"] = [6]byte{2, 0, 0, 0, 0, 8} }) // another node
		pass(15 * time.Minute)
		expect.Equal(t, "reported", w.peers.reports(), "[]")
	})
}

func TestTheMACsOfTheNodeArePublished(t *testing.T) {
	inWorld(t, func(w *world) {
		w.kernel.links[1].MAC = [6]byte{2, 0, 0, 0, 0, 1}
		w.kernel.links = append(w.kernel.links, announce.Link{Name: "veth7", Index: 7, MAC: [6]byte{2, 0, 0, 0, 0, 2}})
	}, func(w *world) {
		expect.Equal(t, "published MACs", w.peers.macs, "[02:00:00:00:00:01]")
	})
}
