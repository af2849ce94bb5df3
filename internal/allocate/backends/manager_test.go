package backends_test

import (
	"context"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/backends"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/netboxtest"
)

func TestChangeOfOneGroupDisturbsNoOther(t *testing.T) {
	in(t, func(w *world) {
		w.serve("other.example")
		w.servers["netbox.example"].AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix("198.51.100.0/24")})
		a, b := on("netbox.example", "a", "192.0.2.0/24"), on("other.example", "b", "10.0.0.0/16")
		defer w.start(a, b)()
		w.ledger.want("a", web)
		w.ledger.want("b", web)
		after(2 * time.Minute)
		before := len(w.servers["other.example"].Requests())
		a = on("netbox.example", "a", "198.51.100.0/24")
		w.manager.Set([]config.Backend{a, b, on("netbox.example", "c", "192.0.2.0/24")})
		w.ledger.want("a", api)
		w.ledger.want("c", v4(1)...)
		after(time.Minute)
		w.holds("a", "api/v4=198.51.100.1 web/v4=192.0.2.1")
		w.holds("c", "web-0/v4=192.0.2.2")
		if n := len(w.servers["other.example"].Requests()); n != before {
			t.Errorf("%d requests for the group that did not change", n-before)
		}
		if s := w.state("a"); s.Ranges[0] != "198.51.100.0/24" || s.Size[addr.V4] != 254 {
			t.Errorf("the state is %+v", s)
		}
		w.manager.Set([]config.Backend{b})
		w.ledger.want("a", v4(1)...)
		after(time.Minute)
		w.holds("a", "api/v4=198.51.100.1 web/v4=192.0.2.1 waits:1")
		if list := w.manager.States(); len(list) != 1 || list["b"].Group != "b" {
			t.Errorf("the states are %+v", list)
		}
	})
}

// The previous worker's call may still be in progress when the group gets another server.
func TestGroupHasOneWorkerAtATime(t *testing.T) {
	in(t, func(w *world) {
		other := w.serve("other.example")
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		after(time.Second)
		free := w.servers["netbox.example"].Hold()
		w.ledger.want("lb", web)
		after(time.Second)
		for range 3 {
			w.manager.Set(nil)
			w.manager.Set([]config.Backend{on("other.example", "lb", "10.0.0.0/16")})
		}
		w.ledger.want("lb", api)
		after(time.Second)
		if n := len(other.Requests()); n != 0 {
			t.Errorf("%d requests while the previous call is in progress", n)
		}
		free()
		after(time.Second)
		w.holds("lb", "api/v4=10.0.0.1 web/v4=192.0.2.1")
	})
}

func TestEndWaitsForTheCallInFlight(t *testing.T) {
	in(t, func(w *world) {
		stop := w.start(on("netbox.example", "lb", "192.0.2.0/24"))
		after(time.Second)
		free := w.servers["netbox.example"].Hold()
		w.ledger.want("lb", web)
		after(time.Second)
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		after(time.Second)
		select {
		case <-stopped:
			t.Fatal("the manager ended during a call")
		default:
		}
		w.ledger.want("lb", api)
		free()
		<-stopped
		w.holds("lb", "web/v4=192.0.2.1 waits:1")
	})
}

// A request may hang. Or each request gets an answer, but together they take longer than a call may
// take.
func TestEndDoesNotWaitForTheBackend(t *testing.T) {
	for name, delay := range map[string]func(*netboxtest.Server){
		"a hanging request": func(s *netboxtest.Server) {
			s.SetFault(netboxtest.HangReply, func(*http.Request) bool { return true })
		},
		"many slow requests": func(s *netboxtest.Server) {
			s.Latency = func(*http.Request) time.Duration { return 15 * time.Second }
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				stop := w.start(on("netbox.example", "lb", "192.0.2.0/24"))
				w.ledger.want("lb", v4(40)...)
				after(10 * time.Second)
				delay(w.servers["netbox.example"])
				w.ledger.giveUp("lb", v4(40)...)
				after(time.Second)
				began := time.Now()
				stop()
				if took := time.Since(began); took > 2*time.Minute {
					t.Errorf("the end took %s", took)
				}
				after(time.Minute) // NetBox finishes the last request
			})
		})
	}
}

// The allocator ends at any request, which fails in any way. Another allocator continues.
func TestRestartInEachStateLeavesOneAddressForAClaim(t *testing.T) {
	for name, fault := range map[string]netboxtest.Fault{"before": netboxtest.FailBefore, "after": netboxtest.FailAfter,
		"lost": netboxtest.LoseReply, "hangs": netboxtest.HangReply} {
		for nth := 1; nth <= 12; nth++ {
			in(t, func(w *world) {
				ctx, cancel := context.WithCancel(w.Context())
				count := 0
				w.servers["netbox.example"].SetFault(fault, func(*http.Request) bool {
					if count++; count == nth {
						cancel()
					}
					return count == nth
				})
				lb := []config.Backend{on("netbox.example", "lb", "192.0.2.0/24")}
				w.manager = backends.New(w.ledger, w.options)
				w.manager.Set(lb)
				stop := run(ctx, w.manager)
				w.ledger.want("lb", web, api)
				after(time.Second)
				w.ledger.giveUp("lb", web)
				after(time.Minute)
				stop()
				w.ledger.restart("")
				w.manager = backends.New(w.ledger, w.options)
				defer w.start(lb...)()
				w.ledger.want("lb", web)
				after(time.Hour)
				if got, kept := w.ledger.print("lb"), w.kept("netbox.example"); got != kept || w.ledger.heldBy("lb") != 2 {
					t.Errorf("request %d %s: the cluster has %q, NetBox has %q", nth, name, got, kept)
				}
			})
		}
	}
}
