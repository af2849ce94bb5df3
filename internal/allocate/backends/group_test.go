package backends_test

import (
	"net/http"
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/testing/netboxtest"
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

func TestManyClaimsAreSentOneAtATime(t *testing.T) {
	in(t, func(w *world) {
		defer w.start(on("netbox.example", "lb", "10.0.0.0/16"))()
		w.ledger.want("lb", v4(1000)...)
		after(time.Minute)
		if n := w.ledger.heldBy("lb"); n != 1000 {
			t.Fatalf("%d claims are granted: %s", n, w.ledger.refusal(v4(1)[0]))
		}
		if n := w.servers["netbox.example"].MostInFlight(); n != 1 {
			t.Errorf("%d requests at a time, want 1", n)
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

// NetBox may commit a claim and then fail or lose the answer. The claim still gets one address.
func TestClaimIsGrantedOnceWhateverFails(t *testing.T) {
	for name, fault := range map[string]netboxtest.Fault{"500 before": netboxtest.FailBefore, "500 after": netboxtest.FailAfter,
		"lost": netboxtest.LoseReply, "hangs": netboxtest.HangReply} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
				after(time.Second)
				failed := 0
				w.servers["netbox.example"].SetFault(func(r *http.Request) netboxtest.Fault {
					if r.Method == http.MethodPost && failed < 3 {
						failed++
						return fault
					}
					return netboxtest.None
				})
				w.ledger.want("lb", web, api)
				after(5 * time.Minute)
				w.keeps("netbox.example", w.ledger.print("lb"))
				if n := w.ledger.heldBy("lb"); n != 2 {
					t.Errorf("%d claims are granted, want 2", n)
				}
				w.hasFault("lb", "")
			})
		})
	}
}
