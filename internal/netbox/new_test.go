package netbox_test

import (
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/netbox"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// No Service uses a new grant yet, so the caller may give it back.
func TestOnlyAGrantOfThisCallIsNew(t *testing.T) {
	for _, mode := range []netbox.Mode{netbox.ModePrefix, netbox.ModeReserved} {
		t.Run(string(mode), func(t *testing.T) {
			b := newMemoryNetBox(t, netboxtest.V46, mode)
			free := ipam.Claim{Key: "ipamtest/default/web/v4", Family: addr.V4}
			named := ipam.Claim{Key: "ipamtest/default/named/v4", Family: addr.V4, Address: netip.MustParseAddr("192.0.2.9")}
			for _, isNew := range []bool{true, false} {
				for _, a := range b.pool("ipamtest").Claim(t.Context(), []ipam.Claim{free, named}) {
					if a.Err != nil || a.New != isNew {
						t.Errorf("got %+v, want new: %t", a, isNew)
					}
				}
			}
		})
	}
}

// The answer to the first call was lost. By now a Service may use its grant.
func TestAGrantOfALostCallIsNotNew(t *testing.T) {
	b := newMemoryNetBox(t, netboxtest.V46, netbox.ModePrefix)
	c := ipam.Claim{Key: "ipamtest/default/web/v4", Family: addr.V4}
	b.LoseAnswer()
	if _, err := claim(t, b.pool("ipamtest"), c); err == nil {
		t.Fatal("the answer was not lost")
	}
	if a := b.pool("ipamtest").Claim(t.Context(), []ipam.Claim{c})[0]; a.Err != nil || a.New {
		t.Errorf("got %+v", a)
	}
}
