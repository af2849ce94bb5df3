package backends_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// keyed adds an address with a key to a server, as another client may do.
func (w *world) keyed(server, address, key string) {
	fields := map[string]any{}
	if key != "" {
		fields[config.NetBoxField] = key
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

// The cluster may be a copy of another one, or have its name. Then the other one has the address.
func TestAddressesOfACopyAreOnlyCounted(t *testing.T) {
	in(t, func(w *world) {
		withOrphans(w)
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		after(2 * time.Hour)
		w.keeps("netbox.example", strings.Replace(foreign, "test", "old/v4=192.0.2.1 test", 1))
		w.counts("lb", 1, 0)
		want := `NetBox holds 1 addresses for cluster "prod" that none of its Services has, such as 192.0.2.1 (prod/default/old/default/v4)`
		if got := strings.Join(w.state("lb").Warnings, "; "); !strings.HasPrefix(got, want) || !strings.Contains(got, "clusterName") || !strings.Contains(got, "release-orphans lb") {
			t.Errorf("the warning is %q", got)
		}
	})
}

// Two clusters of one name each have an address of their own.
func TestClustersOfOneNameDeleteNothing(t *testing.T) {
	in(t, func(w *world) {
		other := &world{T: w.T, ledger: newLedger(), servers: w.servers, handlers: w.handlers, secrets: w.secrets, options: w.options}
		other.options.NetBox, other.options.Secret, other.options.Changed = other.client, other.secret, other.noteChange
		other.ledger.poke = func(due ...ipam.Holder) { other.manager.Poke(due...) }
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		defer other.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		w.ledger.want("lb", web)
		after(time.Minute)
		other.ledger.want("lb", api)
		after(3 * time.Hour)
		w.keeps("netbox.example", "api/v4=192.0.2.2 web/v4=192.0.2.1")
		w.counts("lb", 1, 0)
		other.counts("lb", 1, 0)
	})
}

// confirmed returns a group in which a person confirms the release of the orphans that w shows.
func confirmed(w *world, b config.Backend) config.Backend {
	b.ReleaseOrphans = w.state(b.Group).Digest
	return b
}

func TestConfirmedOrphansAreReleased(t *testing.T) {
	in(t, func(w *world) {
		withOrphans(w)
		b := on("netbox.example", "lb", "192.0.2.0/24")
		defer w.start(b)()
		after(2 * time.Minute)
		if s := w.state("lb"); len(s.Listed) != 1 || s.Listed[0].Address.String() != "192.0.2.1" || s.Digest == "" {
			t.Fatalf("the state lists %v, with the digest %q", s.Listed, s.Digest)
		}
		b = confirmed(w, b)
		w.manager.Set([]config.Backend{b})
		after(10 * time.Second)
		w.keeps("netbox.example", foreign)
		w.counts("lb", 0, 0)
		w.keyed("netbox.example", "192.0.2.9/24", key("later", addr.V4))
		after(time.Hour)
		w.keeps("netbox.example", strings.Replace(foreign, " nobody", " later/v4=192.0.2.9 nobody", 1))
		w.counts("lb", 1, 0)
	})
}

// What a person has seen is no longer what NetBox holds.
func TestConfirmationIsForTheListedOrphans(t *testing.T) {
	in(t, func(w *world) {
		w.keyed("netbox.example", "192.0.2.1/24", key("old", addr.V4))
		b := on("netbox.example", "lb", "192.0.2.0/24")
		defer w.start(b)()
		after(2 * time.Minute)
		w.keyed("netbox.example", "192.0.2.2/24", key("other", addr.V4))
		w.manager.Set([]config.Backend{confirmed(w, b)})
		after(time.Hour)
		w.keeps("netbox.example", "old/v4=192.0.2.1 other/v4=192.0.2.2")
		w.counts("lb", 2, 0)
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
			if r.URL.Query().Has("cf_" + config.NetBoxField + "__isw") {
				w.ledger.restart(key("goes", addr.V4))
				w.ledger.restart(key("left", addr.V4))
			}
		}))
		defer w.start(on("netbox.example", "lb", "192.0.2.0/24"))()
		after(2 * time.Minute)
		w.keeps("netbox.example", "goes/v4=192.0.2.1")
		w.counts("lb", 0, 0)
		// The sweep at 11 min sees an address that no Service has since.
		after(10 * time.Minute)
		w.counts("lb", 1, 0)
	})
}

func TestIncompleteKnowledgeCountsNothing(t *testing.T) {
	for name, spoil := range map[string]func(w *world) (mend func()){
		"NetBox fails": func(w *world) func() {
			w.servers["netbox.example"].SetFault(netboxtest.FailBefore, func(r *http.Request) bool {
				return r.URL.Query().Has("cf_" + config.NetBoxField + "__isw")
			})
			return func() { w.servers["netbox.example"].SetFault(netboxtest.None, nil) }
		},
		"the field is gone": func(w *world) func() {
			w.servers["netbox.example"].Strict = false
			w.servers["netbox.example"].RemoveField(config.NetBoxField)
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
				w.counts("lb", 0, 0)
				if mend != nil {
					mend()
					after(time.Hour)
					w.counts("lb", 1, 0)
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
		w.counts("b", 1, 0)
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

// A reserved address must not be removed, and a created one must not become reserved. The groups
// may have clients of their own, because of their tokens or their URLs.
func TestOrphanOfAnUncertainGroupIsNotReleased(t *testing.T) {
	for name, change := range map[string]func(w *world, n *config.NetBox){
		"one client": func(*world, *config.NetBox) {},
		"another token": func(w *world, n *config.NetBox) {
			n.Token.Name = "second"
			w.setSecret(n.Token, netboxtest.AdminToken)
		},
		"another URL": func(_ *world, n *config.NetBox) { n.URL += "/api/" },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				w.keyed("netbox.example", "192.0.2.1/24", key("old", addr.V4))
				a, b := reserved(w, "a"), on("netbox.example", "b", "192.0.2.0/24")
				change(w, b.NetBox)
				defer w.start(a, b)()
				after(2 * time.Hour)
				w.manager.Set([]config.Backend{a, confirmed(w, b)})
				after(time.Hour)
				if s := w.state("b"); s.Orphans != 1 || !strings.Contains(strings.Join(s.Warnings, ""), "give the groups different custom fields") {
					t.Errorf("the state is %+v", s)
				}
				if n := len(w.servers["netbox.example"].Addresses()); n != 3 {
					t.Errorf("%d addresses are left", n)
				}
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
		w.ledger.restart(web)
		after(15 * time.Minute)
		w.manager.Set([]config.Backend{confirmed(w, b)})
		after(time.Minute)
		w.keeps("netbox.example", "nobody=198.51.100.1 nobody=198.51.100.2")
		for _, a := range w.servers["netbox.example"].Addresses() {
			if a.Status != "reserved" || a.Description != "" {
				t.Errorf("NetBox has %+v", a)
			}
		}
	})
}
