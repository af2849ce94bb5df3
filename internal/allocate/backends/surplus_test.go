package backends_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// A Service requests another address than NetBox has for it.
func TestClaimForAnotherAddressReleasesTheFirst(t *testing.T) {
	in(t, func(w *world) {
		w.keyed("netbox.example", "192.0.2.1/24", web)
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		w.ledger.wantNamed("lb", web, "192.0.2.9")
		after(2 * time.Second)
		w.holds("lb", "web/v4=192.0.2.9")
		w.keeps("netbox.example", "web/v4=192.0.2.9")
	})
}

// The cluster may not know that the address of a Service is from NetBox.
func TestAddressInUseIsNoSurplus(t *testing.T) {
	in(t, func(w *world) {
		w.keyed("netbox.example", "192.0.2.1/24", web)
		w.ledger.show("192.0.2.1")
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		w.ledger.wantNamed("lb", web, "192.0.2.9")
		after(time.Minute)
		w.keeps("netbox.example", "web/v4=192.0.2.1")
	})
}

// An address that another group of the cluster has for the key is not surplus.
func TestAddressOfAnotherGroupIsNoSurplus(t *testing.T) {
	in(t, func(w *world) {
		defer w.start(on("netbox.example", "a", "192.0.2.0/24"), on("netbox.example", "b", "10.0.0.0/16"))()
		w.ledger.want("a", web)
		after(2 * time.Second)
		w.ledger.want("b", web)
		after(time.Minute)
		w.holds("a", "web/v4=192.0.2.1")
		w.keeps("netbox.example", "web/v4=192.0.2.1")
		if refusal := w.ledger.refusal(web); !strings.Contains(refusal, "NetBox holds 192.0.2.1/24 for default/web") {
			t.Errorf("the refusal is %q", refusal)
		}
	})
}

// failDeletes makes NetBox fail at each release.
func failDeletes(w *world, fault netboxtest.Fault) {
	w.servers["netbox.example"].SetFault(func(r *http.Request) netboxtest.Fault {
		if r.Method == http.MethodDelete {
			return fault
		}
		return netboxtest.None
	})
}

// NetBox may execute the release later. Then the address would be free in NetBox while the Service
// has it.
func TestAddressDuringReleaseIsNotGranted(t *testing.T) {
	in(t, func(w *world) {
		w.keyed("netbox.example", "192.0.2.1/24", web)
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		after(time.Second)
		failDeletes(w, netboxtest.FailBefore)
		w.ledger.wantNamed("lb", web, "192.0.2.9")
		after(time.Minute)
		w.holds("lb", "waits:1")
		w.hasFault("lb", ipam.KindUnknown)
		w.ledger.wantNamed("lb", web, "") // from now on any address will do, even the one in NetBox
		after(10 * time.Minute)
		w.holds("lb", "waits:1")
		failDeletes(w, netboxtest.None)
		after(2 * time.Minute)
		w.keeps("netbox.example", w.ledger.print("lb"))
		if w.ledger.heldBy("lb") != 1 {
			t.Error("the Service has no address")
		}
	})
}
