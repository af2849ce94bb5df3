package netbox_test

import (
	"net/http"
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

func TestAPoolSaysWhetherKeysMayRepeat(t *testing.T) {
	for _, tt := range []struct {
		name, version  string
		unique, repeat bool
	}{
		{"unique", "4.6.8", true, false},
		{"not unique", "4.6.8", false, true},
		{"an old NetBox", "4.0.9", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newMemoryNetBox(t, netboxtest.V46, netbox.ModePrefix)
			b.RemoveField(netbox.DefaultField)
			b.AddField(netboxtest.CustomField{Name: netbox.DefaultField, Unique: tt.unique})
			h := interrupt(b.Server, list("/status/"), jsonAnswer(http.StatusOK, `{"netbox-version":"`+tt.version+`"}`))
			p, err := b.clientOf(t, h).Prepare(t.Context(), b.group)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Facts().Repeats; got != tt.repeat {
				t.Errorf("got %t", got)
			}
		})
	}
}
