package backends_test

import (
	"net/http"
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// gaps returns the times between consecutive requests, if they are longer than a second.
func gaps(sent []time.Time) []time.Duration {
	var list []time.Duration
	for i := 1; i < len(sent); i++ {
		if gap := sent[i].Sub(sent[i-1]); gap >= time.Second {
			list = append(list, gap.Round(time.Second))
		}
	}
	return list
}

// refuse answers every request with an error.
func refuse(status int, header, value string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(header, value)
		w.WriteHeader(status)
	})
}

func TestAbsentBackendIsRetriedSlowly(t *testing.T) {
	in(t, func(w *world) {
		w.options.SweepEvery = 24 * time.Hour
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		after(time.Second)
		w.intercept("netbox.example", refuse(503, "X", ""))
		w.requests()
		w.ledger.want("lb", web)
		for range 600 {
			after(time.Second)
			w.ledger.poke(ipam.Holder{Group: "lb", Name: "default/other"}) // new work does not end the delay
		}
		got := gaps(w.requests())
		for i, want := range []int{1, 2, 4, 8, 16, 32, 60, 60, 60} {
			if i >= len(got) || got[i] != time.Duration(want)*time.Second {
				t.Errorf("the delays are %s", got)
				break
			}
		}
		w.intercept("netbox.example", nil)
		after(time.Minute)
		w.requests()
		w.intercept("netbox.example", refuse(503, "X", ""))
		w.ledger.want("lb", api)
		after(3 * time.Second)
		if got := gaps(w.requests()); len(got) == 0 || got[0] != time.Second {
			t.Errorf("after a success, the delays are %s", got)
		}
	})
}

func TestRetryAfterIsRespected(t *testing.T) {
	inGroup(t, func(w *world) {
		after(time.Second)
		w.ledger.want("lb", web)
		after(time.Second)
		w.intercept("netbox.example", refuse(429, "Retry-After", "120"))
		w.requests()
		w.ledger.want("lb", api)
		w.ledger.giveUp("lb", web)
		after(119 * time.Second)
		if sent := w.requests(); len(sent) != 1 {
			t.Errorf("%d requests were sent in 119 s", len(sent))
		}
		w.intercept("netbox.example", nil)
		after(6 * time.Second)
		w.holds("lb", "api/v4=192.0.2.1")
	})
}

// NetBox answers Retry-After to the request that counts addresses, before any Service asks for one.
func TestRetryAfterOfACountIsRespected(t *testing.T) {
	inGroup(t, func(w *world) {
		after(time.Second)
		w.intercept("netbox.example", refuse(429, "Retry-After", "120"))
		after(5*time.Minute + 10*time.Second)
		w.hasFault("lb", ipam.KindUnavailable)
		w.requests()
		w.ledger.want("lb", web)
		after(30 * time.Second)
		if n := len(w.requests()); n != 0 {
			t.Errorf("%d requests although NetBox asked for a pause", n)
		}
		w.intercept("netbox.example", nil)
		after(2 * time.Minute)
		w.holds("lb", "web/v4=192.0.2.1")
	})
}

func TestMisconfigurationIsRetriedSlowly(t *testing.T) {
	in(t, func(w *world) {
		defer w.start(on("netbox.example", "lb", "198.51.100.0/24"))()
		after(time.Hour)
		kind, message := w.fault("lb")
		if kind != ipam.KindMisconfigured {
			t.Fatalf("the fault is %s: %s", kind, message)
		}
		got := gaps(w.requests())
		for i, want := range []int{15, 30, 60, 120, 240, 300, 300} {
			if i >= len(got) || got[i] != time.Duration(want)*time.Second {
				t.Fatalf("the delays are %s", got)
			}
		}
		if len(w.changes) != 1 {
			t.Errorf("the state changed %d times, want once", len(w.changes))
		}
	})
}

// NetBox refuses the search for the group with a complaint about a field, as it refuses a claim.
func TestRefusedSearchForTheGroupIsAFault(t *testing.T) {
	in(t, func(w *world) {
		w.intercept("netbox.example", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"name":["Select a valid choice."]}`))
		}))
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		w.ledger.want("lb", web)
		after(time.Second)
		w.hasFault("lb", ipam.KindMisconfigured)
		w.intercept("netbox.example", nil)
		after(time.Minute)
		w.holds("lb", "web/v4=192.0.2.1")
		w.hasFault("lb", "")
	})
}

// A token without the right to delete delays no Service.
func TestRefusedReleaseDelaysNoClaim(t *testing.T) {
	inGroup(t, func(w *world) {
		w.ledger.want("lb", web)
		after(time.Second)
		s := w.servers["netbox.example"]
		s.SetToken(netboxtest.AdminToken, netboxtest.Token{Writable: func(a netboxtest.Address) bool { return a.Prefix.Addr().String() != "192.0.2.1" }})
		w.ledger.giveUp("lb", web)
		after(time.Hour)
		w.hasFault("lb", ipam.KindMisconfigured)
		w.ledger.want("lb", api)
		after(time.Second)
		w.holds("lb", "api/v4=192.0.2.2")
		w.keeps("netbox.example", "api/v4=192.0.2.2 web/v4=192.0.2.1")
		s.SetToken(netboxtest.AdminToken, netboxtest.Token{})
		after(6 * time.Minute)
		w.holds("lb", "api/v4=192.0.2.2")
		w.hasFault("lb", "")
	})
}

// The families have different prefixes. If one prefix is missing, the other still serves.
func TestMissingPrefixOfAFamilyDoesNotStopTheOther(t *testing.T) {
	in(t, func(w *world) {
		b := on("netbox.example", "lb", "192.0.2.0/24")
		b.NetBox.Parents = append(b.NetBox.Parents, config.NetBoxParent{Range: true, Start: netip.MustParseAddr("2001:db8::10")})
		defer w.start(b)()
		after(time.Second)
		w.servers["netbox.example"].RemovePrefix(1)
		w.ledger.want("lb", web)
		after(10 * time.Minute)
		w.ledger.want("lb", key("web", addr.V6))
		after(6 * time.Minute)
		w.holds("lb", "web/v6=2001:db8::10 waits:1")
		w.hasFault("lb", ipam.KindMisconfigured)
	})
}

// No Service waits for the claim that failed. The worker still sends requests, so that users see
// when the backend works again.
func TestFaultEndsWithoutWork(t *testing.T) {
	inGroup(t, func(w *world) {
		after(time.Second)
		w.intercept("netbox.example", refuse(503, "X", ""))
		began := time.Now()
		w.ledger.want("lb", web)
		after(10 * time.Minute)
		if f := w.state("lb").Fault; f == nil || f.Kind != ipam.KindUnavailable || f.Since.Sub(began) > time.Second {
			t.Errorf("the fault is %+v, want one since %s", f, began)
		}
		w.ledger.giveUp("lb", web)
		after(10 * time.Minute)
		w.hasFault("lb", ipam.KindUnavailable)
		w.intercept("netbox.example", nil)
		after(time.Minute)
		w.hasFault("lb", "")
	})
}

// All calls that fail because of the token cause only one read of the Secret.
func TestWrongTokenIsReadAgainOnce(t *testing.T) {
	inGroup(t, func(w *world) {
		w.ledger.want("lb", web)
		after(10 * time.Second)
		w.servers["netbox.example"].SetToken(netboxtest.AdminToken, netboxtest.Token{Refusal: netboxtest.Expired})
		w.ledger.want("lb", api)
		w.ledger.giveUp("lb", web)
		after(time.Second)
		w.requests()
		after(15 * time.Second)
		if n := len(w.requests()); n != 3 {
			t.Errorf("%d requests, want 3: one to prepare, one to claim and one to release", n)
		}
	})
}

// A refusal of one claim does not delay the worker.
func TestRefusedClaimDelaysNoOther(t *testing.T) {
	in(t, func(w *world) {
		w.servers["netbox.example"].AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix("198.51.100.0/30")})
		defer w.start(on("netbox.example", "lb", "198.51.100.0/30"))()
		w.ledger.want("lb", v4(3)...)
		after(2 * time.Second)
		w.holds("lb", "web-0/v4=198.51.100.1 web-1/v4=198.51.100.2 waits:1")
		w.ledger.giveUp("lb", v4(1)...)
		w.ledger.want("lb", web)
		after(time.Second)
		w.holds("lb", "web-1/v4=198.51.100.2 web/v4=198.51.100.1 waits:1")
		if kind, _ := w.fault("lb"); kind != "" {
			t.Errorf("an exhausted group has the fault %s", kind)
		}
	})
}

func TestFewRequestsAreSentWhenNothingHappens(t *testing.T) {
	in(t, func(w *world) {
		groups := []struct{ name, prefix string }{{"a", "192.0.2.0/24"}, {"b", "10.0.0.0/16"}, {"c", "192.0.2.0/24"},
			{"d", "192.0.2.0/24"}, {"e", "192.0.2.0/24"}, {"f", "192.0.2.0/24"}, {"g", "192.0.2.0/24"}, {"h", "192.0.2.0/24"},
			{"i", "192.0.2.0/24"}, {"j", "192.0.2.0/24"}, {"k", "192.0.2.0/24"}, {"l", "192.0.2.0/24"}}
		var list []config.Backend
		for _, g := range groups {
			list = append(list, on("netbox.example", g.name, g.prefix))
		}
		defer w.start(list...)()
		w.ledger.want("b", v4(200)...)
		after(time.Hour)
		if n := w.ledger.heldBy("b"); n != 200 {
			t.Fatalf("%d claims are granted", n)
		}
		w.requests()
		after(2 * time.Hour)
		if sent := len(w.requests()); sent > 240 || sent < 24 {
			t.Errorf("%d requests in two hours, want at most 2 per minute", sent)
		}
		w.mu.Lock()
		changes := len(w.changes)
		w.mu.Unlock()
		after(time.Hour)
		if len(w.changes) != changes {
			t.Errorf("the states changed %d times in an idle hour", len(w.changes)-changes)
		}
	})
}

func TestCountFollowsChangesSoon(t *testing.T) {
	inGroup(t, func(w *world) {
		after(time.Minute)
		for n := range 60 {
			w.ledger.want("lb", v4(60)[n])
			after(time.Second)
		}
		after(30 * time.Second)
		if n := w.state("lb").InUse[4]; n != 60 {
			t.Errorf("%d addresses are in use, want 60", n)
		}
		counts := 0
		for _, r := range w.servers["netbox.example"].Requests() {
			if r.Method == http.MethodGet && r.Path == "/api/ipam/ip-addresses/" {
				counts++
			}
		}
		if counts > 60+5+1 { // 60 lookups of keys, and 1 sweep
			t.Errorf("%d requests for lists", counts)
		}
	})
}

// NetBox grants an address that PureLB does not give to the Service, until a person has corrected the cause.
func TestUnusableGrantIsAskedForAgain(t *testing.T) {
	inGroup(t, func(w *world) {
		w.ledger.unusable = &ipam.Error{Kind: ipam.KindTaken, Message: "in a range of another group"}
		w.ledger.want("lb", web)
		after(2 * time.Second)
		w.holds("lb", "waits:1")
		w.ledger.unusable = nil
		after(30 * time.Second)
		w.holds("lb", "web/v4=192.0.2.1")
	})
}
