package linux

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/expect"
)

// On a large segment, such as a /16, hosts ask for each other all the time. This process must not
// wake up for each of these packets.
func TestKernelDropsQuestionsOfOtherHosts(t *testing.T) {
	newWorld(t)
	there := newNeighborhood(t)
	fd := there.capture(t)
	s := newStack(t)
	heard := listen(t, t.Context(), s, mine)
	var delivered atomic.Int32
	expect.NoError(t, s.receiver.add(&listener{hear: func(said) { delivered.Add(1) }}, [2]scope{}))
	mac, everybody := [6]byte{2, 0, 0, 0, 0, 3}, [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	ours, ours6 := netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("fd00::9")
	for i := range 250 {
		host := netip.AddrFrom4([4]byte{10, 9, byte(i), 1})
		host6 := netip.MustParseAddr(fmt.Sprintf("fd00::1:%x", i+1))
		group := [6]byte(groupBytes(ours6))
		there.say(t, fd,
			addressed(everybody, mac, unix.ETH_P_ARP, requestARP(mac, host, host.Next())),
			addressed(everybody, mac, unix.ETH_P_ARP, requestARP(mac, host, ours)),
			addressed(everybody, mac, unix.ETH_P_ARP, probeARP(mac, host)),
			addressed(everybody, mac, unix.ETH_P_ARP, gratuitousARP(arpReply, mac, host)),
			addressed(group, mac, unix.ETH_P_IPV6, requestNS(mac, host6, ours6)),
			addressed([6]byte{0x33, 0x33, 0, 0, 0, 1}, mac, unix.ETH_P_IPV6, unsolicitedNA(mac, host6, host6, override)))
	}
	there.say(t, fd,
		addressed(everybody, mac, unix.ETH_P_ARP, gratuitousARP(arpRequest, mac, ours)),
		addressed([6]byte{0x33, 0x33, 0, 0, 0, 1}, mac, unix.ETH_P_IPV6, unsolicitedNA(mac, ours6, ours6, override)))
	claims := map[string]bool{"eth0 020000000003 has 192.0.2.9": true, "eth0 020000000003 has fd00::9": true}
	for len(claims) > 0 {
		delete(claims, next(t, heard))
	}
	expect.NoError(t, s.receiver.catchUp())
	expect.Equal(t, "packets delivered", delivered.Load(), 2)
}

// The filter also covers the foreign addresses between ours.
func TestClaimsOfManyAddressesAreReported(t *testing.T) {
	newWorld(t)
	there := newNeighborhood(t)
	fd := there.capture(t)
	many := map[netip.Addr]string{}
	for i := range 20 {
		many[netip.AddrFrom4([4]byte{198, 18, byte(i), 1})] = "eth0"
		many[netip.MustParseAddr(fmt.Sprintf("2001:db8::%x:0", i+1))] = "eth0"
	}
	heard := listen(t, t.Context(), newStack(t), func() map[netip.Addr]string { return many })
	mac := [6]byte{2, 0, 0, 0, 0, 3}
	for addr := range many {
		if addr.Is4() {
			there.say(t, fd, addressed([6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac, unix.ETH_P_ARP, probeARP(mac, addr)))
		} else {
			there.say(t, fd, addressed([6]byte(groupBytes(addr)), mac, unix.ETH_P_IPV6, probeNS(addr)))
		}
		expect.Equal(t, "heard", next(t, heard), "eth0 020000000003 wants "+addr.String())
	}
}
