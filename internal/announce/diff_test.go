package announce_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/announce"
)

// render shows changes in the order in which they are applied.
func render(c announce.Changes) string {
	var b strings.Builder
	for _, part := range []struct {
		verb  string
		addrs []announce.Address
	}{{"add", c.Add}, {"refresh", c.Refresh}, {"remove", c.Remove}} {
		for _, a := range part.addrs {
			fmt.Fprintf(&b, "%s %s %s\n", part.verb, a.Prefix, a.Link)
		}
	}
	return b.String()
}

func TestDiff(t *testing.T) {
	local := list(wantLocal("eth0", "192.0.2.9/24"), wantLocal("eth0", "fd00::9/64"))
	local4, local6 := hasLocal("eth0", "192.0.2.9/24", lifetime), hasLocal("eth0", "fd00::9/64", lifetime)
	remote := list(wantRemote("kube-lb0", "198.51.100.1/32"), wantRemote("kube-lb0", "2001:db8::1/128"))
	remote4, remote6 := hasRemote("kube-lb0", "198.51.100.1/32"), hasRemote("kube-lb0", "2001:db8::1/128")
	for _, tt := range []struct {
		name          string
		wanted, found []announce.Address
		want          string
	}{
		{"nothing wanted and nothing there is nothing to do", nil, nil, ""},
		{"what is missing is added, in the order wanted",
			list(wantLocal("eth0", "fd00::9/64"), wantLocal("eth0", "192.0.2.9/24"), wantRemote("kube-lb0", "198.51.100.1/32")),
			list(hasNode("eth0", "192.0.2.1/24"), hasNode("eth0", "fd00::1/64")),
			"add fd00::9/64 eth0\nadd 192.0.2.9/24 eth0\nadd 198.51.100.1/32 kube-lb0\n"},
		{"what is there as wanted stays as it is",
			slices.Concat(local, remote), list(hasLocal("eth0", "192.0.2.9/24", 31*time.Second), hasLocal("eth0", "fd00::9/64", 59*time.Second), remote4, remote6), ""},
		{"an address with less than half of its life left is refreshed",
			local, list(hasLocal("eth0", "192.0.2.9/24", 29*time.Second), hasLocal("eth0", "fd00::9/64", 29*time.Second)),
			"refresh 192.0.2.9/24 eth0\nrefresh fd00::9/64 eth0\n"},
		{"an address that would outlive its agent is refreshed",
			local, list(hasLocal("eth0", "192.0.2.9/24", 250*time.Second), hasLocal("eth0", "fd00::9/64", announce.Forever)),
			"refresh 192.0.2.9/24 eth0\nrefresh fd00::9/64 eth0\n"},
		{"an address that must not expire is refreshed when it would",
			remote, list(with(remote4, func(a *announce.Address) { a.Valid = time.Hour }), with(remote6, func(a *announce.Address) { a.Preferred = time.Hour })),
			"refresh 198.51.100.1/32 kube-lb0\nrefresh 2001:db8::1/128 kube-lb0\n"},
		{"an address that must not be a source is refreshed when it could be",
			list(wantLocal("eth0", "fd00::9/64")), list(with(local6, func(a *announce.Address) { a.Preferred = lifetime })),
			"refresh fd00::9/64 eth0\n"},
		{"an address with other flags is refreshed", local, list(with(local4, routed), with(local6, routed)),
			"refresh 192.0.2.9/24 eth0\nrefresh fd00::9/64 eth0\n"},
		{"whether duplicates are to be detected matters only when adding",
			list(with(wantLocal("eth0", "fd00::9/64"), func(a *announce.Address) { a.NoDAD = true })), list(local6), ""},
		{"ours that nobody wants is removed from every link",
			list(wantLocal("eth0", "192.0.2.9/24")), list(local4, hasLocal("eth1", "192.0.2.9/24", lifetime), remote6, hasRemote("old-lb0", "198.51.100.1/32")),
			"remove 192.0.2.9/24 eth1\nremove 2001:db8::1/128 kube-lb0\nremove 198.51.100.1/32 old-lb0\n"},
		{"a new mask is added before the old one is removed",
			list(wantRemote("kube-lb0", "198.51.100.1/24"), wantRemote("kube-lb0", "2001:db8::1/64")), list(remote4, remote6),
			"add 198.51.100.1/24 kube-lb0\nadd 2001:db8::1/64 kube-lb0\nremove 198.51.100.1/32 kube-lb0\nremove 2001:db8::1/128 kube-lb0\n"},
		{"a new link is added before the old one is removed",
			list(wantLocal("eth1", "192.0.2.9/24"), wantLocal("eth1", "fd00::9/64")), list(local4, local6),
			"add 192.0.2.9/24 eth1\nadd fd00::9/64 eth1\nremove 192.0.2.9/24 eth0\nremove fd00::9/64 eth0\n"},
		{"the node's own addresses are neither added nor removed",
			list(wantLocal("eth0", "192.0.2.1/24"), wantLocal("eth0", "fd00::1/64"), wantRemote("kube-lb0", "203.0.113.1/32")),
			list(hasNode("eth0", "192.0.2.1/24"), hasNode("eth0", "fd00::1/64"), hasNode("lo", "203.0.113.1/32"), hasNode("lo", "127.0.0.1/8")),
			""},
		{"what the node takes for itself we give up", list(wantLocal("eth0", "192.0.2.9/24")), list(local4, hasNode("lo", "192.0.2.9/32")),
			"remove 192.0.2.9/24 eth0\n"},
		{"an address that another program marked is not ours", list(wantLocal("eth0", "fd00::9/64")),
			list(with(hasNode("eth0", "fd00::9/64"), func(a *announce.Address) { a.Mark = 3 }), with(hasNode("eth0", "fd00::a/64"), func(a *announce.Address) { a.Mark = 81 })),
			""},
		{"what kube-proxy keeps on kube-ipvs0 is as if it were not there", local,
			list(hasNode("kube-ipvs0", "192.0.2.9/32"), hasNode("kube-ipvs0", "fd00::9/128"), hasNode("kube-ipvs0", "10.96.0.1/32"), hasRemote("kube-ipvs0", "10.96.0.2/32")),
			"add 192.0.2.9/24 eth0\nadd fd00::9/64 eth0\n"},
		{"what is wanted twice is added once", list(wantLocal("eth0", "192.0.2.9/24"), wantLocal("eth0", "192.0.2.9/24")), nil,
			"add 192.0.2.9/24 eth0\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := announce.Diff(tt.wanted, announce.Node{Addresses: tt.found, MarksSupported: true})
			equal(t, render(got), tt.want)
		})
	}
}

func TestDiffWithoutMarks(t *testing.T) {
	found := list(hasNode("eth0", "192.0.2.1/24"), hasNode("kube-lb0", "198.51.100.1/32"), hasNode("kube-lb0", "2001:db8::2/128"))
	wanted := list(wantLocal("eth0", "192.0.2.1/24"), wantRemote("kube-lb0", "198.51.100.1/32"))

	equal(t, render(announce.Diff(nil, announce.Node{Addresses: found})), "") // nothing unmarked is ours
	for i := range found {
		found[i].Adopted = found[i].Link == "kube-lb0"
	}
	equal(t, render(announce.Diff(wanted, announce.Node{Addresses: found})), "remove 2001:db8::2/128 kube-lb0\n")
}

// kernel applies changes. In IPv4 it keeps the same address with two masks. In IPv6 it replaces
// one by the other, as the driver does.
type kernel []announce.Address

func (k *kernel) apply(c announce.Changes) {
	for _, a := range slices.Concat(c.Add, c.Refresh) {
		k.drop(func(b announce.Address) bool {
			return b.Link == a.Link && b.Prefix.Addr() == a.Prefix.Addr() && (b.Prefix == a.Prefix || a.Prefix.Addr().Is6())
		})
		a.Mark = announce.Mark
		*k = append(*k, a)
	}
	for _, a := range c.Remove {
		k.drop(func(b announce.Address) bool { return b.Link == a.Link && b.Prefix == a.Prefix })
	}
}

func (k *kernel) drop(which func(announce.Address) bool) {
	*k = slices.DeleteFunc(slices.Clone(*k), which)
}

// print prints the addresses that are ours, or those that are not.
func (k kernel) print(ours bool) []string {
	var all []string
	for _, a := range k {
		if ours == (a.Mark == announce.Mark && a.Link != "kube-ipvs0") {
			all = append(all, fmt.Sprint(a.Prefix, a.Link, a.Valid, a.NoPrefixRoute))
		}
	}
	slices.Sort(all)
	return all
}

func TestDiffTouchesNothingElse(t *testing.T) {
	prefixes := []string{"192.0.2.1/24", "192.0.2.1/32", "192.0.2.2/24", "192.0.2.3/24", "fd00::1/64", "fd00::1/128", "fd00::2/64", "fd00::3/64"}
	// on draws an address from a small set, so that addresses often meet.
	on := func(links ...string) *rapid.Generator[announce.Address] {
		return rapid.Custom(func(t *rapid.T) announce.Address {
			a := wantLocal(rapid.SampledFrom(links).Draw(t, "link"), rapid.SampledFrom(prefixes).Draw(t, "prefix"))
			a.NoPrefixRoute = rapid.Bool().Draw(t, "noprefixroute")
			return a
		})
	}
	place := func(a announce.Address) string { return a.Link + a.Prefix.Addr().String() }
	rapid.Check(t, func(t *rapid.T) {
		var is kernel
		is.apply(announce.Changes{Add: rapid.SliceOfN(on("eth0", "eth1", "lo", "kube-lb0", "kube-ipvs0"), 0, 12).Draw(t, "found")})
		for i := range is {
			is[i].Mark = rapid.SampledFrom([]uint8{0, 3, announce.Mark}).Draw(t, "mark")
			is[i].Valid = rapid.SampledFrom([]time.Duration{1, lifetime, announce.Forever}).Draw(t, "left")
		}
		wanted := rapid.SliceOfNDistinct(on("eth0", "eth1", "lo", "kube-lb0"), 0, 12, place).Draw(t, "wanted")
		foreign := is.print(false)

		c := announce.Diff(wanted, announce.Node{MarksSupported: true, Addresses: is})
		is.apply(c)

		var should kernel
		should.apply(announce.Changes{Add: wanted})
		should.drop(func(a announce.Address) bool {
			return slices.ContainsFunc(is, func(f announce.Address) bool {
				return f.Mark != announce.Mark && f.Link != "kube-ipvs0" && f.Prefix.Addr() == a.Prefix.Addr()
			})
		})
		if diff := cmp.Diff(foreign, is.print(false)); diff != "" {
			t.Fatalf("foreign addresses changed (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(should.print(true), is.print(true)); diff != "" {
			t.Fatalf("addresses of ours (-want +got):\n%s", diff)
		}
		if again := render(announce.Diff(wanted, announce.Node{MarksSupported: true, Addresses: is})); again != "" {
			t.Fatalf("the second difference is not empty:\n%s", again)
		}
	})
}

func TestFailedAddRemovesNothing(t *testing.T) {
	moved, also, gone := hasLocal("eth0", "192.0.2.9/24", lifetime), hasLocal("eth0", "192.0.2.8/24", lifetime), hasLocal("eth0", "192.0.2.7/24", lifetime)
	c := announce.Changes{Add: list(wantLocal("eth1", "192.0.2.9/24"), wantLocal("eth1", "192.0.2.8/24")), Remove: list(moved, also, gone)}
	one := &announce.AddressError{Address: c.Add[0], Err: errors.New("no such device")}
	equal(t, one.Error(), "192.0.2.9/24 on eth1: no such device")
	for _, tt := range []struct {
		name string
		err  error
		want []announce.Address
	}{
		{"all was added", nil, list(moved, also, gone)},
		{"one address failed", fmt.Errorf("put: %w", errors.Join(errors.New("another"), fmt.Errorf("v4: %w", one))), list(also, gone)},
		{"nothing was added", errors.New("dump interrupted"), list(gone)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := announce.NewOutcome()
			o.Failed = announce.Failures(c.Add, tt.err)
			new(announce.Addresses).Leave(begin, announce.Plan{}, c.Remove, o)
			equal(t, o.Remove, tt.want)
		})
	}
}

// The kernel promotes one of our addresses when the node's own is taken off. An address that
// is added beside it gets no connected route.
func TestDisplacingAddressesArePutAnew(t *testing.T) {
	secondary := func(a *announce.Address) { a.Secondary = true }
	ours := list(hasLocal("eth0", "10.0.0.5/24", lifetime), with(hasLocal("eth0", "10.0.0.6/24", lifetime), secondary), hasLocal("eth0", "10.1.0.5/24", lifetime))
	wanted := list(wantLocal("eth0", "10.0.0.5/24"), wantLocal("eth0", "10.0.0.6/24"), wantLocal("eth0", "10.1.0.5/24"))
	for _, tt := range []struct {
		name string
		node announce.Address
		want string
	}{
		{"the node's address is secondary", with(hasNode("eth0", "10.0.0.1/24"), secondary), "10.0.0.5/24 10.0.0.6/24"},
		{"it is the first", hasNode("eth0", "10.0.0.1/24"), ""},
		{"it needs no route", with(hasNode("eth0", "10.0.0.1/24"), func(a *announce.Address) { a.Secondary, a.NoPrefixRoute = true, true }), ""},
		{"it is on another link", with(hasNode("eth1", "10.0.0.1/24"), secondary), ""},
	} {
		var got []string
		for _, a := range announce.Diff(wanted, announce.Node{Addresses: append(ours, tt.node), MarksSupported: true}).Refresh {
			if a.Anew {
				got = append(got, a.Prefix.String())
			}
		}
		if text := strings.Join(got, " "); text != tt.want {
			t.Errorf("%s: %q are put anew, want %q", tt.name, text, tt.want)
		}
	}
}

func TestNextRefresh(t *testing.T) {
	lasts := func(valid, preferred time.Duration) announce.Address {
		return announce.Address{Prefix: netip.MustParsePrefix("10.0.0.5/24"), Link: "eth0", Valid: valid, Preferred: preferred, Mark: announce.Mark}
	}
	elsewhere := lasts(40*time.Second, 40*time.Second)
	elsewhere.Link = "eth1"
	for _, tt := range []struct {
		name   string
		found  []announce.Address
		wanted announce.Address
		want   time.Duration
	}{
		{"a new address", nil, lasts(60*time.Second, 60*time.Second), 31 * time.Second},
		{"an address that is refreshed now", []announce.Address{lasts(20*time.Second, 20*time.Second)}, lasts(60*time.Second, 60*time.Second), 31 * time.Second},
		{"an address that is refreshed later", []announce.Address{lasts(40*time.Second, 40*time.Second)}, lasts(60*time.Second, 60*time.Second), 11 * time.Second},
		{"a new address that is preferred for a shorter time", nil, lasts(60*time.Second, 20*time.Second), 11 * time.Second},
		{"an address that is preferred for a shorter time", []announce.Address{lasts(55*time.Second, 15*time.Second)}, lasts(60*time.Second, 20*time.Second), 6 * time.Second},
		{"a deprecated address", nil, lasts(60*time.Second, 0), 31 * time.Second},
		{"an address for ever", []announce.Address{lasts(announce.Forever, announce.Forever)}, lasts(announce.Forever, announce.Forever), time.Minute},
		{"an address that moves to another link", []announce.Address{elsewhere}, lasts(60*time.Second, 60*time.Second), 31 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			equal(t, announce.NextRefresh(begin, announce.Node{Addresses: tt.found}, list(tt.wanted), time.Minute).Sub(begin), tt.want)
		})
	}
}
