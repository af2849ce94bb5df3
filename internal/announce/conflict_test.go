package announce

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// A MAC is easy to forge. The machines of one address must not take the room of all others.
func TestForgedMACsLeaveRoomForOtherAddresses(t *testing.T) {
	c, now := Conflicts{}, time.Unix(1000, 0)
	forged, other := netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("192.0.2.10")
	for i := range 10 * maxRivals {
		c.Note(now, Rival{forged, [6]byte{2, 0, 0, 0, byte(i >> 8), byte(i)}}, "eth0", true)
	}
	if !c.Note(now, Rival{other, [6]byte{2}}, "eth0", true) {
		t.Error("another address has no room")
	}
	c.Inherit(Rival{forged, [6]byte{4}}, "", "eth0", now)
	if got, want := len(c), maxMACs+1; got != want {
		t.Errorf("%d machines, want %d", got, want)
	}
}

func TestOneMachineWithManyAddressesIsRemembered(t *testing.T) {
	c, now := Conflicts{}, time.Unix(1000, 0)
	for i := range 2 * maxRivals {
		c.Note(now, Rival{netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250)), [6]byte{2}}, "eth0", true)
	}
	if got := len(c); got != maxRivals {
		t.Errorf("%d of %d are remembered, want %d", got, 2*maxRivals, maxRivals)
	}
}
