package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/service"
	"purelb.io/purelb/internal/testing/expect"
)

// sentWithin returns the most packets that went out within a second: two for each claim of an IPv4 address.
func sentWithin(t *testing.T, claims []string) (most int) {
	var times []time.Duration
	for _, line := range claims {
		at, err := time.ParseDuration(strings.Fields(line)[0])
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, at, at)
	}
	for i := range times {
		n := 0
		for n < len(times)-i && times[i+n]-times[i] < time.Second {
			n++
		}
		most = max(most, n)
	}
	return most
}

// claimed returns how many addresses were claimed.
func claimed(claims []string) int {
	all := map[string]bool{}
	for _, line := range claims {
		all[strings.Fields(line)[2]] = true
	}
	return len(all)
}

func hundred(node string) (all []corev1.Service) {
	for i := range 100 {
		svc := branded(fmt.Sprintf("s%d", i), fmt.Sprintf("192.0.2.%d", 100+i))
		if node != "" {
			svc.Annotations[service.AnnotationAnnouncingIPv4] = fmt.Sprintf("%s,eth0,192.0.2.%d", node, 100+i)
		}
		all = append(all, svc)
	}
	return all
}

// Switches that inspect ARP switch off a port that sends more than 15 packets in a second.
func TestClaimsOfManyAddressesArePaced(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.kernel.changes()
		w.cluster.change(serving(hundred("")...))
		pass(20 * time.Second)
		claims := w.kernel.claims()
		if most := sentWithin(t, claims); most > 15 {
			t.Errorf("%d packets in a second, want 15 at most", most)
		}
		expect.Equal(t, "claimed addresses", claimed(claims), 100)
		w.cluster.change(serving())
		settle()
		before := len(w.kernel.claims())
		pass(time.Minute)
		expect.Equal(t, "claims of addresses that are gone", len(w.kernel.claims())-before, 0)
	})
}

// The clients of an address that moved send to the dead node until they hear the claim.
func TestClaimsOfAddressesThatMovedAreNotDelayed(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.kernel.changes()
		w.cluster.change(serving(hundred("node-b")...))
		pass(300 * time.Millisecond)
		expect.Equal(t, "claimed addresses", claimed(w.kernel.claims()), 100)
		pass(1300 * time.Millisecond)
		if later := w.kernel.claims()[100:]; sentWithin(t, later) > 15 {
			t.Errorf("the repetitions are %d packets in a second, want 15 at most", sentWithin(t, later))
		}
	})
}

// verifyBeforeSend is for each packet, also for one that waited.
func TestAnAddressThatVanishedIsNotClaimed(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		w.kernel.changes()
		w.cluster.change(serving(hundred("")...))
		pass(500 * time.Millisecond)
		w.kernel.change(func() {
			for i := range 100 {
				w.kernel.putErr[fmt.Sprintf("192.0.2.%d", 100+i)] = errors.New("no")
			}
			w.kernel.addresses = w.kernel.addresses[:3]
		})
		settle()
		before := len(w.kernel.claims())
		pass(30 * time.Second)
		expect.Equal(t, "claims of addresses that are not here", len(w.kernel.claims())-before, 0)
	})
}

// Without annotations, only the offers of the holder say that the addresses move.
func TestOfferedAddressesAreClaimedAtOnce(t *testing.T) {
	inWorld(t, func(w *world) { w.peers.peers.Members = append(w.peers.peers.Members, peer("node-b")) }, func(w *world) {
		w.kernel.changes()
		var all []netip.Addr
		for i := range 100 {
			all = append(all, netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + i)}))
			w.kernel.answers[all[i].String()] = someMAC
		}
		w.cluster.change(serving(hundred("")...))
		pass(time.Second)
		expect.Equal(t, "claims before the offer", len(w.kernel.claims()), 0)
		w.peers.received <- from("node-b", announce.Take, all...)
		pass(50 * time.Millisecond)
		if here := len(w.kernel.addresses) - 3; here == 0 || claimed(w.kernel.claims()) != here {
			t.Errorf("%d of %d addresses are claimed", claimed(w.kernel.claims()), here)
		}
	})
}

// An urgent claim that the kernel refused must not wait for the claims of new addresses.
func TestARefusedUrgentClaimComesFirst(t *testing.T) {
	p, now := newPacer(), time.Now()
	at := func(i int) announce.Claim {
		return announce.Claim{IP: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), Link: "eth0"}
	}
	for i := range 20 {
		p.add(now, at(i), false)
	}
	urgent := at(15)
	urgent.Urgent = true
	p.add(now, urgent, false)
	due, _ := p.take(now)
	var all []string
	for _, c := range due {
		all = append(all, c.IP.String())
	}
	expect.Equal(t, "claims of the first second", strings.Join(all, " "), "192.0.2.15 192.0.2.0 192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4 192.0.2.5")
	rest := 0
	for next := now; !next.IsZero(); {
		due, next = p.take(next)
		rest += len(due)
	}
	expect.Equal(t, "claims after it", rest, 13)
}
