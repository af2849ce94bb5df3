package census

import (
	"fmt"
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/service"
)

// Agents announce what a record names as soon as another program empties the status. Here that program
// replaced the status first, and an allocator started that has no pool with the address.
func TestAnAddressInARecordIsHeld(t *testing.T) {
	given := netip.MustParseAddr("192.0.2.9")
	for recorded, want := range map[bool]string{true: "[test/web]", false: "[]"} {
		r := service.Request{Namespace: "test", Name: "web", Ownership: service.Ownership{
			Owner: service.Contested, Recorded: recorded, Vouched: []netip.Addr{given},
			Strange: []netip.Addr{netip.MustParseAddr("198.51.100.1")},
		}}
		c, _ := Of(Objects{}).Holdings([]service.Request{r})
		if got := fmt.Sprint(c.Store.Holders(given)); got != want {
			t.Errorf("recorded %v: %s is held by %s, want %s", recorded, given, got, want)
		}
		if recorded && c.Store.Hold(given, ipam.Owner("test/other"), false) == nil {
			t.Error("another Service got it too")
		}
	}
}
