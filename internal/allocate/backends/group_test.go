package backends_test

import (
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
)

var (
	web = key("web", addr.V4)
	api = key("api", addr.V4)
)

func TestClaimsAreGrantedAndReleased(t *testing.T) {
	inGroup(t, func(w *world) {
		w.ledger.want("lb", web, api)
		after(5 * time.Second)
		w.holds("lb", "api/v4=192.0.2.2 web/v4=192.0.2.1")
		w.keeps("netbox.example", "api/v4=192.0.2.2 web/v4=192.0.2.1")
		w.ledger.giveUp("lb", web)
		after(5 * time.Second)
		w.holds("lb", "api/v4=192.0.2.2")
		w.keeps("netbox.example", "api/v4=192.0.2.2")
		after(time.Minute)
		s := w.state("lb")
		if s.Backend != "NetBox 4.6.8" || s.Ranges[0] != "192.0.2.0/24" || s.InUse[addr.V4] != 1 || s.Size[addr.V4] != 254 || s.Fault != nil || s.Reached.IsZero() {
			t.Errorf("the state is %+v", s)
		}
	})
}

// A request that hangs delays the groups of its server, but no others.
func TestHangingBackendDelaysNoOtherGroup(t *testing.T) {
	in(t, func(w *world) {
		w.serve("other.example")
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"), on("other.example", "far", "10.0.0.0/16"))()
		after(time.Second)
		free := w.servers["netbox.example"].Hold()
		w.ledger.want("lb", web)
		after(time.Second)
		w.holds("lb", "waits:1")
		w.ledger.want("far", web)
		after(time.Second)
		w.holds("far", "web/v4=10.0.0.1")
		w.ledger.giveUp("far", web)
		after(time.Second)
		w.holds("far", "")
		w.holds("lb", "waits:1")
		free()
		after(time.Second)
		w.holds("lb", "web/v4=192.0.2.1")
	})
}
