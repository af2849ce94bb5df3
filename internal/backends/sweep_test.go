package backends_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/backends"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/netbox"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// keyed adds an address with a key to a server, as another client may do.
func (w *world) keyed(server, address, key string) {
	fields := map[string]any{}
	if key != "" {
		fields[netbox.DefaultField] = key
	}
	w.servers[server].AddAddress(netboxtest.Address{Prefix: netip.MustParsePrefix(address), Fields: fields})
}

// sweeps counts the sweeps of a server.
func (w *world) sweeps(server string) int {
	n := 0
	for _, r := range w.requested(server) {
		if strings.Contains(r, "__isw") {
			n++
		}
	}
	return n
}

// withOrphans adds the claim old, which the cluster lacks, among other claims.
func withOrphans(w *world) {
	w.keyed("netbox.example", "192.0.2.1/24", key("old", addr.V4))
	w.keyed("netbox.example", "192.0.2.2/24", "")
	w.keyed("netbox.example", "192.0.2.3/24", "test/default/old/v4")
	w.keyed("netbox.example", "192.0.2.4/24", key("kept", addr.V4))
	w.keyed("netbox.example", "192.0.2.5/24", key("gone-group", addr.V4))
	w.ledger.hold("lb", key("kept", addr.V4), "192.0.2.4")
	w.ledger.hold("gone", key("gone-group", addr.V4), "192.0.2.5")
}

const foreign = "gone-group/v4=192.0.2.5 kept/v4=192.0.2.4 nobody=192.0.2.2 test/default/old/v4=192.0.2.3"

func TestOrphansAreReleasedAfterAWhile(t *testing.T) {
	in(t, func(w *world) {
		withOrphans(w)
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		after(12 * time.Minute)
		w.keeps("netbox.example", strings.Replace(foreign, "test", "old/v4=192.0.2.1 test", 1))
		w.counts("lb", 1, 0)
		after(20 * time.Minute)
		w.keeps("netbox.example", foreign)
		after(20 * time.Minute)
		w.counts("lb", 0, 0)
	})
}

func TestTimesOfSweepsCanBeShort(t *testing.T) {
	in(t, func(w *world) {
		w.options.Sweeps = backends.Sweeps{SweepEvery: 10 * time.Second, PageTime: time.Second, Grace: 10 * time.Second}
		withOrphans(w)
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		after(19 * time.Second)
		w.keeps("netbox.example", strings.Replace(foreign, "test", "old/v4=192.0.2.1 test", 1))
		after(3 * time.Second)
		w.keeps("netbox.example", foreign)
	})
}

// NetBox's clock may be slow. Then a new object looks old.
func TestYoungOrphanIsNotReleased(t *testing.T) {
	for _, slow := range []time.Duration{0, 24 * time.Hour} {
		in(t, func(w *world) {
			w.servers["netbox.example"].Now = func() time.Time { return time.Now().Add(-slow) }
			defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
			after(12 * time.Minute)
			w.keyed("netbox.example", "192.0.2.1/24", key("late", addr.V4))
			after(14 * time.Minute)
			w.keeps("netbox.example", "late/v4=192.0.2.1")
			after(30 * time.Minute)
			w.keeps("netbox.example", "")
		})
	}
}

// The key and the address are the same, but the claim is another one.
func TestRecreatedOrphanIsYoung(t *testing.T) {
	in(t, func(w *world) {
		w.keyed("netbox.example", "192.0.2.1/24", key("old", addr.V4))
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		after(18 * time.Minute) // swept at minutes 1 and 11
		w.servers["netbox.example"].RemoveAddress(w.servers["netbox.example"].Addresses()[0].ID)
		w.keyed("netbox.example", "192.0.2.1/24", key("old", addr.V4))
		after(14 * time.Minute)
		w.keeps("netbox.example", "old/v4=192.0.2.1")
		after(10 * time.Minute)
		w.keeps("netbox.example", "")
	})
}

// A claim that appears or disappears during a sweep is neither an orphan nor missing.
func TestChangeDuringASweepIsNoDifference(t *testing.T) {
	in(t, func(w *world) {
		w.keyed("netbox.example", "192.0.2.1/24", key("goes", addr.V4))
		w.ledger.hold("lb", key("goes", addr.V4), "192.0.2.1")
		w.ledger.hold("lb", key("left", addr.V4), "192.0.2.2")
		s := w.servers["netbox.example"]
		w.intercept("netbox.example", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			s.ServeHTTP(rw, r)
			if r.URL.Query().Has("cf_" + netbox.DefaultField + "__isw") {
				w.ledger.forget("lb", key("goes", addr.V4))
				w.ledger.forget("lb", key("left", addr.V4))
			}
		}))
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		after(2 * time.Minute)
		w.keeps("netbox.example", "goes/v4=192.0.2.1")
		w.counts("lb", 0, 0)
		// The sweep at 21 min is the first that sees the claim again.
		after(10 * time.Minute)
		w.counts("lb", 0, 0)
	})
}

// If a Service claims an orphan in the meantime, it is no longer an orphan.
func TestClaimedOrphanIsKept(t *testing.T) {
	in(t, func(w *world) {
		w.keyed("netbox.example", "192.0.2.7/24", web)
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		after(20 * time.Minute)
		w.ledger.want("lb", web)
		after(time.Hour)
		w.holds("lb", "web/v4=192.0.2.7")
		w.keeps("netbox.example", "web/v4=192.0.2.7")
	})
}

func TestIncompleteKnowledgeReleasesNothing(t *testing.T) {
	for name, spoil := range map[string]func(w *world) (mend func()){
		"the Services are not read": func(w *world) func() {
			w.ledger.setIncomplete(true)
			return func() { w.ledger.setIncomplete(false) }
		},
		"NetBox fails": func(w *world) func() {
			w.servers["netbox.example"].SetFault(func(r *http.Request) netboxtest.Fault {
				if r.URL.Query().Has("cf_" + netbox.DefaultField + "__isw") {
					return netboxtest.FailBefore
				}
				return netboxtest.None
			})
			return func() { w.servers["netbox.example"].SetFault(nil) }
		},
		"the field is gone": func(w *world) func() {
			w.servers["netbox.example"].Strict = false
			w.servers["netbox.example"].RemoveField(netbox.DefaultField)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				withOrphans(w)
				stop := w.start(on("netbox.example", "lb", "192.0.2.0/24"))
				defer stop()
				after(time.Second)
				mend := spoil(w)
				after(2 * time.Hour)
				if n := len(w.servers["netbox.example"].Addresses()); n != 5 {
					t.Errorf("%d addresses are left", n)
				}
				if orphans := w.ledger.orphans("lb"); orphans != 0 {
					t.Errorf("%d orphans were named", orphans)
				}
				if mend != nil {
					mend()
					after(time.Hour)
					w.keeps("netbox.example", foreign)
				}
			})
		})
	}
}

func TestMissingClaimsAreRegistered(t *testing.T) {
	in(t, func(w *world) {
		w.ledger.hold("lb", web, "192.0.2.77")
		w.ledger.hold("lb", key("web", addr.V6), "2001:db8::12")
		b := on("netbox.example", "lb", "192.0.2.0/24")
		b.NetBox.Parents = append(b.NetBox.Parents, config.NetBoxParent{Range: true, Start: netip.MustParseAddr("2001:db8::10")})
		defer w.start(b)()
		after(time.Minute + time.Millisecond)
		w.counts("lb", 0, 2)
		after(time.Minute)
		w.keeps("netbox.example", "web/v4=192.0.2.77 web/v6=2001:db8::12")
		after(11 * time.Minute)
		w.counts("lb", 0, 0)
	})
}

// Two groups keep their claims in the same custom field.
func TestGroupsOfOneServerAreSweptTogether(t *testing.T) {
	in(t, func(w *world) {
		a, b := on("netbox.example", "a", "192.0.2.0/24"), on("netbox.example", "b", "10.0.0.0/16")
		w.servers["netbox.example"].AddField(netboxtest.CustomField{Name: "other", Unique: true})
		c := on("netbox.example", "c", "10.0.0.0/16")
		c.NetBox.Field = "other"
		w.keyed("netbox.example", "10.0.0.9/16", key("old", addr.V4))
		defer w.start(a, b, c)()
		w.ledger.want("a", web)
		w.ledger.want("b", api)
		after(12 * time.Minute)
		if got := w.state("a").Orphans*10 + w.state("b").Orphans; got != 1 {
			t.Errorf("the orphans of a and b are %02d, want 01", got)
		}
		after(time.Hour)
		w.keeps("netbox.example", "api/v4=10.0.0.1 web/v4=192.0.2.1")
		if n := w.sweeps("netbox.example"); n != 2*8 {
			t.Errorf("%d sweeps of 2 fields in 72 minutes", n)
		}
	})
}

// The sweep of a server ends with its last group, and begins again with the next group.
func TestServerIsSweptWhileItHasGroups(t *testing.T) {
	in(t, func(w *world) {
		a, b := on("netbox.example", "a", "192.0.2.0/24"), on("netbox.example", "b", "10.0.0.0/16")
		defer w.start(a, b)()
		after(2 * time.Minute)
		w.manager.Set([]config.Backend{b})
		w.keyed("netbox.example", "192.0.2.1/24", key("old", addr.V4)) // of the deleted group
		after(25 * time.Minute)
		w.counts("b", 1, 0)
		w.manager.Set(nil)
		after(time.Second)
		w.requests()
		after(time.Hour)
		if n := len(w.requests()); n != 0 {
			t.Errorf("%d requests without a group", n)
		}
		w.manager.Set([]config.Backend{b})
		after(40 * time.Minute)
		w.keeps("netbox.example", "")
	})
}

// Each token sees only the claims of its own group. The sweep must not release the others.
func TestGroupsWithTwoTokensDoNotReleaseEachOthers(t *testing.T) {
	in(t, func(w *world) {
		a, b := on("netbox.example", "a", "192.0.2.0/24"), on("netbox.example", "b", "10.0.0.0/16")
		b.NetBox.Token.Name = "second"
		w.setSecret(b.NetBox.Token, newToken)
		w.servers["netbox.example"].SetToken(newToken, netboxtest.Token{})
		defer w.start(a, b)()
		w.ledger.want("a", web)
		w.ledger.want("b", api)
		after(2 * time.Hour)
		w.keeps("netbox.example", "api/v4=10.0.0.1 web/v4=192.0.2.1")
		if n := w.ledger.orphans("a") + w.ledger.orphans("b"); n != 0 {
			t.Errorf("%d orphans were named", n)
		}
	})
}

// reserved returns a group whose addresses exist in NetBox beforehand.
func reserved(w *world, group string) config.Backend {
	s := w.servers["netbox.example"]
	s.AddTenant("IPAM PureLB", "ipam-purelb")
	for _, a := range []string{"198.51.100.1/32", "198.51.100.2/32"} {
		s.AddAddress(netboxtest.Address{Prefix: netip.MustParsePrefix(a), Tenant: "ipam-purelb", Status: "reserved"})
	}
	b := on("netbox.example", group, "192.0.2.0/24")
	b.NetBox.Reserved, b.NetBox.Parents, b.NetBox.Tenant = true, nil, "ipam-purelb"
	return b
}

func TestReservedOrphanIsReservedAgain(t *testing.T) {
	in(t, func(w *world) {
		defer w.start(reserved(w, "lb"))()
		w.ledger.want("lb", web)
		after(5 * time.Second)
		w.holds("lb", "web/v4=198.51.100.1")
		w.ledger.forget("lb", web)
		after(time.Hour)
		w.keeps("netbox.example", "nobody=198.51.100.1 nobody=198.51.100.2")
		if s := w.servers["netbox.example"].Addresses()[0].Status; s != "reserved" {
			t.Errorf("the status is %s", s)
		}
	})
}

// A reserved address must not be removed, and a created one must not become reserved.
func TestOrphanOfAnUncertainGroupIsOnlyCounted(t *testing.T) {
	in(t, func(w *world) {
		w.keyed("netbox.example", "192.0.2.1/24", key("old", addr.V4))
		defer w.start(reserved(w, "a"), on("netbox.example", "b", "192.0.2.0/24"))()
		after(2 * time.Hour)
		if s := w.state("b"); s.Orphans != 1 || !strings.Contains(strings.Join(s.Warnings, ""), "give the groups different custom fields") {
			t.Errorf("the state is %+v", s)
		}
		if n := w.ledger.orphans("a") + w.ledger.orphans("b"); n != 0 || len(w.servers["netbox.example"].Addresses()) != 3 {
			t.Errorf("%d orphans were named", n)
		}
	})
}

// The groups have clients of their own, because of their tokens or their URLs.
func TestOrphanOfAnUncertainClientIsOnlyCounted(t *testing.T) {
	for name, change := range map[string]func(w *world, n *config.NetBox){
		"another token": func(w *world, n *config.NetBox) {
			n.Token.Name = "second"
			w.setSecret(n.Token, netboxtest.AdminToken)
		},
		"another URL": func(_ *world, n *config.NetBox) { n.URL += "/api/" },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				a, b := reserved(w, "a"), on("netbox.example", "b", "192.0.2.0/24")
				change(w, b.NetBox)
				stop := w.start(a)
				w.ledger.want("a", web)
				after(time.Minute)
				w.ledger.forget("a", web)
				w.manager.Set([]config.Backend{a, b})
				after(2 * time.Hour)
				stop()
				w.keeps("netbox.example", "nobody=198.51.100.2 web/v4=198.51.100.1")
			})
		})
	}
}

// The ServiceGroup with reserved addresses is deleted before its last Service.
func TestReservedOrphanOutlivesItsGroup(t *testing.T) {
	in(t, func(w *world) {
		a, b := reserved(w, "a"), on("netbox.example", "b", "192.0.2.0/24")
		defer w.start(a, b)()
		w.ledger.want("a", web)
		after(time.Minute)
		w.manager.Set([]config.Backend{b})
		w.ledger.forget("a", web)
		after(2 * time.Hour)
		w.keeps("netbox.example", "nobody=198.51.100.1 nobody=198.51.100.2")
		for _, a := range w.servers["netbox.example"].Addresses() {
			if a.Status != "reserved" || a.Description != "" {
				t.Errorf("NetBox has %+v", a)
			}
		}
	})
}
