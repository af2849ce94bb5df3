package backends_test

import (
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/testing/netboxtest"
)

const newToken = "nbt_abc.0123456789abcdef"

func TestRotatedTokenIsTaken(t *testing.T) {
	in(t, func(w *world) {
		defer w.start(on("netbox.example", "a", "192.0.2.0/24"), on("netbox.example", "b", "10.0.0.0/16"))()
		w.ledger.want("a", web)
		w.ledger.want("b", api)
		after(5 * time.Second)
		s := w.servers["netbox.example"]
		s.SetToken(newToken, netboxtest.Token{})
		s.SetToken(netboxtest.AdminToken, netboxtest.Token{Refusal: netboxtest.Expired})
		w.ledger.want("a", v4(1)...)
		after(time.Second)
		kind, message := w.fault("a")
		if kind != ipam.KindMisconfigured || !strings.Contains(message, "expired") || strings.Contains(message, netboxtest.AdminToken) {
			t.Errorf("the fault is %s: %s", kind, message)
		}
		w.setSecret(token, newToken)
		after(16 * time.Second)
		w.holds("a", "web-0/v4=192.0.2.2 web/v4=192.0.2.1")
		// The other group uses the new client without a fault.
		w.ledger.want("b", v4(2)[1])
		after(2 * time.Second)
		w.holds("b", "api/v4=10.0.0.1 web-1/v4=10.0.0.2")
		for _, group := range []string{"a", "b"} {
			if kind, message := w.fault(group); kind != "" {
				t.Errorf("the fault of %s is %s: %s", group, kind, message)
			}
		}
	})
}

func TestMissingSecretIsNamedAndHeals(t *testing.T) {
	in(t, func(w *world) {
		delete(w.secrets, token)
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		w.ledger.want("lb", web)
		after(time.Minute)
		kind, message := w.fault("lb")
		if kind != ipam.KindMisconfigured || message != "the Secret purelb/netbox has no entry token, or is not there: put the API token of a user of NetBox there" {
			t.Errorf("the fault is %s: %s", kind, message)
		}
		w.setSecret(token, netboxtest.AdminToken)
		after(5 * time.Minute)
		w.holds("lb", "web/v4=192.0.2.1")
	})
}

func TestCertificatesAreRead(t *testing.T) {
	in(t, func(w *world) {
		b := on("netbox.example", "lb", "192.0.2.0/24")
		b.NetBox.CA = token
		b.NetBox.CA.Key = "ca.crt"
		defer w.start(b)()
		after(time.Second)
		if _, message := w.fault("lb"); !strings.Contains(message, "has no entry ca.crt") {
			t.Errorf("the fault is %s", message)
		}
		w.setSecret(b.NetBox.CA, "the certificate")
		after(16 * time.Second)
		if got := string(w.lastConfig.CA); got != "the certificate" {
			t.Errorf("the client has the certificates %q", got)
		}
	})
}
