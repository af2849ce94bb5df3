package announce

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
)

const lifetime = 60 * time.Second

// wantLocal and wantRemote return addresses as they should be. hasLocal and hasRemote return
// them as we put them there, and hasNode an address that is not ours.
func wantLocal(link, prefix string) Address {
	a := Address{Prefix: netip.MustParsePrefix(prefix), Link: link, Valid: lifetime, NoPrefixRoute: true}
	if a.Prefix.Addr().Is4() {
		a.Preferred = lifetime
	}
	return a
}

func wantRemote(link, prefix string) Address {
	return Address{Prefix: netip.MustParsePrefix(prefix), Link: link, Valid: Forever, Preferred: Forever}
}

func hasLocal(link, prefix string, left time.Duration) Address {
	a := wantLocal(link, prefix)
	a.Valid, a.Mark = left, Mark
	if a.Prefix.Addr().Is4() {
		a.Preferred = left
	}
	return a
}

func hasRemote(link, prefix string) Address { return with(wantRemote(link, prefix), marked) }

func hasNode(link, prefix string) Address { return wantRemote(link, prefix) }

func marked(a *Address) { a.Mark = Mark }

func with(a Address, change func(*Address)) Address {
	change(&a)
	return a
}

func list(addrs ...Address) []Address { return addrs }

// render shows changes in the order in which they are applied.
func render(c Changes) string {
	var b strings.Builder
	for _, part := range []struct {
		verb  string
		addrs []Address
	}{{"add", c.Add}, {"refresh", c.Refresh}, {"remove", c.Remove}} {
		for _, a := range part.addrs {
			fmt.Fprintf(&b, "%s %s %s\n", part.verb, a.Prefix, a.Link)
		}
	}
	for _, r := range c.Refused {
		fmt.Fprintf(&b, "refuse %s %s: %s: %s\n", r.Address.Prefix, r.Address.Link, r.Reason, r.Message)
	}
	return b.String()
}

func TestDiff(t *testing.T) {
	tests := []struct {
		name   string
		wanted []Address
		found  []Address
		want   string
	}{
		{
			name: "nothing wanted and nothing there is nothing to do",
		},
		{
			name:   "what is missing is added, in the order wanted",
			wanted: list(wantLocal("eth0", "fd00::9/64"), wantLocal("eth0", "192.0.2.9/24"), wantRemote("kube-lb0", "198.51.100.1/32")),
			found:  list(hasNode("eth0", "192.0.2.1/24"), hasNode("eth0", "fd00::1/64")),
			want:   "add fd00::9/64 eth0\nadd 192.0.2.9/24 eth0\nadd 198.51.100.1/32 kube-lb0\n",
		},
		{
			name:   "what is there as wanted stays as it is",
			wanted: list(wantLocal("eth0", "192.0.2.9/24"), wantLocal("eth0", "fd00::9/64"), wantRemote("kube-lb0", "198.51.100.1/32"), wantRemote("kube-lb0", "2001:db8::1/128")),
			found:  list(hasLocal("eth0", "192.0.2.9/24", 31*time.Second), hasLocal("eth0", "fd00::9/64", 59*time.Second), hasRemote("kube-lb0", "198.51.100.1/32"), hasRemote("kube-lb0", "2001:db8::1/128")),
		},
		{
			name:   "an address with less than half of its life left is refreshed",
			wanted: list(wantLocal("eth0", "192.0.2.9/24"), wantLocal("eth0", "fd00::9/64")),
			found:  list(hasLocal("eth0", "192.0.2.9/24", 29*time.Second), hasLocal("eth0", "fd00::9/64", 29*time.Second)),
			want:   "refresh 192.0.2.9/24 eth0\nrefresh fd00::9/64 eth0\n",
		},
		{
			name:   "an address that would outlive its agent is refreshed",
			wanted: list(wantLocal("eth0", "192.0.2.9/24"), wantLocal("eth0", "fd00::9/64")),
			found:  list(hasLocal("eth0", "192.0.2.9/24", 250*time.Second), hasLocal("eth0", "fd00::9/64", Forever)),
			want:   "refresh 192.0.2.9/24 eth0\nrefresh fd00::9/64 eth0\n",
		},
		{
			name:   "an address that must not expire is refreshed when it would",
			wanted: list(wantRemote("kube-lb0", "198.51.100.1/32"), wantRemote("kube-lb0", "2001:db8::1/128")),
			found: list(with(hasRemote("kube-lb0", "198.51.100.1/32"), func(a *Address) { a.Valid = time.Hour }),
				with(hasRemote("kube-lb0", "2001:db8::1/128"), func(a *Address) { a.Preferred = time.Hour })),
			want: "refresh 198.51.100.1/32 kube-lb0\nrefresh 2001:db8::1/128 kube-lb0\n",
		},
		{
			name:   "an address that must not be a source is refreshed when it could be",
			wanted: list(wantLocal("eth0", "fd00::9/64")),
			found:  list(with(hasLocal("eth0", "fd00::9/64", lifetime), func(a *Address) { a.Preferred = lifetime })),
			want:   "refresh fd00::9/64 eth0\n",
		},
		{
			name:   "an address with other flags is refreshed",
			wanted: list(wantLocal("eth0", "192.0.2.9/24"), wantLocal("eth0", "fd00::9/64")),
			found: list(with(hasLocal("eth0", "192.0.2.9/24", lifetime), func(a *Address) { a.NoPrefixRoute = false }),
				with(hasLocal("eth0", "fd00::9/64", lifetime), func(a *Address) { a.NoPrefixRoute = false })),
			want: "refresh 192.0.2.9/24 eth0\nrefresh fd00::9/64 eth0\n",
		},
		{
			name:   "whether duplicates are to be detected matters only when adding",
			wanted: list(with(wantLocal("eth0", "fd00::9/64"), func(a *Address) { a.NoDAD = true })),
			found:  list(hasLocal("eth0", "fd00::9/64", lifetime)),
		},
		{
			name:   "ours that nobody wants is removed from every link",
			wanted: list(wantLocal("eth0", "192.0.2.9/24")),
			found:  list(hasLocal("eth0", "192.0.2.9/24", lifetime), hasLocal("eth1", "192.0.2.9/24", lifetime), hasRemote("kube-lb0", "2001:db8::1/128"), hasRemote("old-lb0", "198.51.100.1/32")),
			want:   "remove 192.0.2.9/24 eth1\nremove 2001:db8::1/128 kube-lb0\nremove 198.51.100.1/32 old-lb0\n",
		},
		{
			name:   "a new mask is added before the old one is removed",
			wanted: list(wantRemote("kube-lb0", "198.51.100.1/24"), wantRemote("kube-lb0", "2001:db8::1/64")),
			found:  list(hasRemote("kube-lb0", "198.51.100.1/32"), hasRemote("kube-lb0", "2001:db8::1/128")),
			want:   "add 198.51.100.1/24 kube-lb0\nadd 2001:db8::1/64 kube-lb0\nremove 198.51.100.1/32 kube-lb0\nremove 2001:db8::1/128 kube-lb0\n",
		},
		{
			name:   "a new link is added before the old one is removed",
			wanted: list(wantLocal("eth1", "192.0.2.9/24"), wantLocal("eth1", "fd00::9/64")),
			found:  list(hasLocal("eth0", "192.0.2.9/24", lifetime), hasLocal("eth0", "fd00::9/64", lifetime)),
			want:   "add 192.0.2.9/24 eth1\nadd fd00::9/64 eth1\nremove 192.0.2.9/24 eth0\nremove fd00::9/64 eth0\n",
		},
		{
			name:   "the node's own addresses are neither added nor removed",
			wanted: list(wantLocal("eth0", "192.0.2.1/24"), wantLocal("eth0", "fd00::1/64"), wantRemote("kube-lb0", "203.0.113.1/32")),
			found:  list(hasNode("eth0", "192.0.2.1/24"), hasNode("eth0", "fd00::1/64"), hasNode("lo", "203.0.113.1/32"), hasNode("lo", "127.0.0.1/8")),
			want: "refuse 192.0.2.1/24 eth0: nodeAddress: 192.0.2.1 is an address of the node itself, on eth0; exclude it from the pool\n" +
				"refuse fd00::1/64 eth0: nodeAddress: fd00::1 is an address of the node itself, on eth0; exclude it from the pool\n" +
				"refuse 203.0.113.1/32 kube-lb0: nodeAddress: 203.0.113.1 is an address of the node itself, on lo; exclude it from the pool\n",
		},
		{
			name:   "what the node takes for itself we give up",
			wanted: list(wantLocal("eth0", "192.0.2.9/24")),
			found:  list(hasLocal("eth0", "192.0.2.9/24", lifetime), hasNode("lo", "192.0.2.9/32")),
			want:   "remove 192.0.2.9/24 eth0\nrefuse 192.0.2.9/24 eth0: nodeAddress: 192.0.2.9 is an address of the node itself, on lo; exclude it from the pool\n",
		},
		{
			name:   "an address that another program marked is not ours",
			wanted: list(wantLocal("eth0", "fd00::9/64")),
			found:  list(with(hasNode("eth0", "fd00::9/64"), func(a *Address) { a.Mark = 3 }), with(hasNode("eth0", "fd00::a/64"), func(a *Address) { a.Mark = 81 })),
			want:   "refuse fd00::9/64 eth0: nodeAddress: fd00::9 is an address of the node itself, on eth0; exclude it from the pool\n",
		},
		{
			name:   "what kube-proxy keeps on kube-ipvs0 is as if it were not there",
			wanted: list(wantLocal("eth0", "192.0.2.9/24"), wantLocal("eth0", "fd00::9/64")),
			found:  list(hasNode("kube-ipvs0", "192.0.2.9/32"), hasNode("kube-ipvs0", "fd00::9/128"), hasNode("kube-ipvs0", "10.96.0.1/32"), hasRemote("kube-ipvs0", "10.96.0.2/32")),
			want:   "add 192.0.2.9/24 eth0\nadd fd00::9/64 eth0\n",
		},
		{
			name:   "what is wanted twice is added once",
			wanted: list(wantLocal("eth0", "192.0.2.9/24"), wantLocal("eth0", "192.0.2.9/24")),
			want:   "add 192.0.2.9/24 eth0\n",
		},
	}
	adoptNothing := func(a Address) bool {
		t.Errorf("asked whether to adopt %s although the kernel has marks", a.Prefix)
		return true
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Diff(tt.wanted, Node{Addresses: tt.found, MarksSupported: true}, adoptNothing)
			if diff := cmp.Diff(tt.want, render(got)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDiffOnAKernelWithoutMarksAdoptsByPredicate(t *testing.T) {
	pooled := func(a Address) bool { return a.Link == "kube-lb0" }
	found := list(hasNode("eth0", "192.0.2.1/24"), hasNode("kube-lb0", "198.51.100.1/32"), hasNode("kube-lb0", "2001:db8::2/128"))
	wanted := list(wantLocal("eth0", "192.0.2.1/24"), wantRemote("kube-lb0", "198.51.100.1/32"))

	got := render(Diff(wanted, Node{Addresses: found}, pooled))
	want := "remove 2001:db8::2/128 kube-lb0\n" +
		"refuse 192.0.2.1/24 eth0: nodeAddress: 192.0.2.1 is an address of the node itself, on eth0; exclude it from the pool\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with a predicate (-want +got):\n%s", diff)
	}
	if c := Diff(nil, Node{Addresses: found}, nil); !c.Empty() {
		t.Errorf("without a predicate nothing unmarked is ours, got:\n%s", render(c))
	}
}

// model is a kernel that applies changes. In IPv4 it keeps the same address with two masks.
// In IPv6 it replaces one by the other, as the driver does.
type model map[place]Address

func (m model) apply(c Changes) {
	for _, a := range slices.Concat(c.Add, c.Refresh) {
		for p := range m {
			if a.Prefix.Addr().Is6() && p.link == a.Link && p.prefix.Addr() == a.Prefix.Addr() {
				delete(m, p)
			}
		}
		a.Mark = Mark
		m[placeOf(a)] = a
	}
	for _, a := range c.Remove {
		delete(m, placeOf(a))
	}
}

func (m model) node() Node {
	node := Node{MarksSupported: true}
	for _, a := range m {
		node.Addresses = append(node.Addresses, a)
	}
	return node
}

// draw creates addresses from a small set, so that they often meet.
func draw(t *rapid.T, label string, change func(*rapid.T, *Address)) []Address {
	prefixes := []string{"192.0.2.1/24", "192.0.2.1/32", "192.0.2.2/24", "192.0.2.3/24", "fd00::1/64", "fd00::1/128", "fd00::2/64", "fd00::3/64"}
	links := []string{"eth0", "eth1", "lo", "kube-lb0", ipvsLink}
	one := rapid.Custom(func(t *rapid.T) Address {
		a := wantLocal(rapid.SampledFrom(links).Draw(t, "link"), rapid.SampledFrom(prefixes).Draw(t, "prefix"))
		change(t, &a)
		return a
	})
	return rapid.SliceOfN(one, 0, 12).Draw(t, label)
}

func TestApplyingTheDifferenceGivesWhatIsWantedAndTouchesNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kernel := model{}
		kernel.apply(Changes{Add: draw(t, "found", func(*rapid.T, *Address) {})})
		for p, a := range kernel {
			a.Mark = rapid.SampledFrom([]uint8{0, 3, Mark}).Draw(t, "mark")
			a.Valid = rapid.SampledFrom([]time.Duration{1, lifetime, Forever}).Draw(t, "left")
			kernel[p] = a
		}
		wanted := withoutContradictions(draw(t, "wanted", func(t *rapid.T, a *Address) {
			if a.Link == ipvsLink {
				a.Link = "eth0"
			}
			a.NoPrefixRoute = rapid.Bool().Draw(t, "noprefixroute")
		}))
		foreign := foreignOf(kernel)

		c := Diff(wanted, kernel.node(), nil)
		kernel.apply(c)

		if diff := cmp.Diff(foreign, foreignOf(kernel), cmp.Comparer(netipEqual)); diff != "" {
			t.Fatalf("foreign addresses changed (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(accepted(wanted, c.Refused), ours(kernel)); diff != "" {
			t.Fatalf("addresses of ours (-want +got):\n%s", diff)
		}
		if again := Diff(wanted, kernel.node(), nil); !again.Empty() {
			t.Fatalf("the second difference is not empty:\n%s", render(again))
		}
	})
}

// withoutContradictions keeps the first of several wanted addresses with the same IP on the
// same link.
func withoutContradictions(wanted []Address) []Address {
	seen := map[string]bool{}
	return slices.DeleteFunc(wanted, func(a Address) bool {
		key := a.Link + a.Prefix.Addr().String()
		defer func() { seen[key] = true }()
		return seen[key]
	})
}

func netipEqual(a, b netip.Prefix) bool { return a == b }

func foreignOf(m model) map[string]Address {
	foreign := map[string]Address{}
	for p, a := range m {
		if a.Mark != Mark || a.Link == ipvsLink {
			foreign[fmt.Sprint(p)] = a
		}
	}
	return foreign
}

func accepted(wanted []Address, refused []Refusal) map[string]bool {
	set := map[string]bool{}
	for _, a := range wanted {
		set[fmt.Sprint(a.Prefix, a.Link, a.Valid, a.NoPrefixRoute)] = true
	}
	for _, r := range refused {
		delete(set, fmt.Sprint(r.Address.Prefix, r.Address.Link, r.Address.Valid, r.Address.NoPrefixRoute))
	}
	return set
}

func ours(m model) map[string]bool {
	set := map[string]bool{}
	for _, a := range m {
		if a.Mark == Mark && a.Link != ipvsLink {
			set[fmt.Sprint(a.Prefix, a.Link, a.Valid, a.NoPrefixRoute)] = true
		}
	}
	return set
}

func TestWhatCouldNotBeAddedIsNotRemovedElsewhere(t *testing.T) {
	moved, gone := hasLocal("eth0", "192.0.2.9/24", lifetime), hasLocal("eth0", "192.0.2.7/24", lifetime)
	c := Changes{Add: list(wantLocal("eth1", "192.0.2.9/24")), Remove: list(moved, gone)}
	one := &AddressError{Address: c.Add[0], Err: errors.New("no such device")}
	tests := []struct {
		name string
		err  error
		want []Address
	}{
		{"all was added", nil, list(moved, gone)},
		{"one address failed", fmt.Errorf("put: %w", errors.Join(one)), list(gone)},
		{"nothing was added", errors.New("dump interrupted"), list(gone)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, c.Removable(Failures(c.Add, tt.err)), cmp.Comparer(netipEqual)); diff != "" {
				t.Errorf("removable (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddressErrorsAreFoundInWhateverWrapsThem(t *testing.T) {
	a := &AddressError{Address: wantLocal("eth0", "192.0.2.9/24"), Err: errors.New("no such device")}
	b := &AddressError{Address: wantLocal("eth0", "fd00::9/64"), Err: errors.New("permission denied")}
	err := fmt.Errorf("announce: %w", errors.Join(a, errors.New("another"), fmt.Errorf("v6: %w", b)))
	if got := AddressErrors(err); !slices.Equal(got, []*AddressError{a, b}) {
		t.Errorf("got %v", got)
	}
	if got, want := a.Error(), "192.0.2.9/24 on eth0: no such device"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// BenchmarkDiff10k is the pass of an agent that has 10,000 addresses and no change.
func BenchmarkDiff10k(b *testing.B) {
	var wanted []Address
	node := Node{MarksSupported: true}
	ip := netip.MustParseAddr("198.18.0.1")
	for range 10_000 {
		p := netip.PrefixFrom(ip, 32).String()
		wanted = append(wanted, wantRemote("kube-lb0", p))
		node.Addresses = append(node.Addresses, hasRemote("kube-lb0", p))
		ip = ip.Next()
	}
	for b.Loop() {
		if !Diff(wanted, node, nil).Empty() {
			b.Fatal("there is something to do")
		}
	}
}

// The kernel promotes one of our addresses when the node's own is taken off. An address that
// is added beside it gets no connected route.
func TestAddressesThatDisplaceTheNodesArePutAnew(t *testing.T) {
	secondary := func(a *Address) { a.Secondary = true }
	ours := list(hasLocal("eth0", "10.0.0.5/24", lifetime), with(hasLocal("eth0", "10.0.0.6/24", lifetime), secondary), hasLocal("eth0", "10.1.0.5/24", lifetime))
	wanted := list(wantLocal("eth0", "10.0.0.5/24"), wantLocal("eth0", "10.0.0.6/24"), wantLocal("eth0", "10.1.0.5/24"))
	for _, tt := range []struct {
		name string
		node Address
		want string
	}{
		{"the node's address is secondary", with(hasNode("eth0", "10.0.0.1/24"), secondary), "10.0.0.5/24 10.0.0.6/24"},
		{"it is the first", hasNode("eth0", "10.0.0.1/24"), ""},
		{"it needs no route", with(hasNode("eth0", "10.0.0.1/24"), func(a *Address) { a.Secondary, a.NoPrefixRoute = true, true }), ""},
		{"it is on another link", with(hasNode("eth1", "10.0.0.1/24"), secondary), ""},
	} {
		var got []string
		for _, a := range Diff(wanted, Node{Addresses: append(ours, tt.node), MarksSupported: true}, nil).Refresh {
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
	lasts := func(valid, preferred time.Duration) Address {
		return Address{Prefix: netip.MustParsePrefix("10.0.0.5/24"), Link: "eth0", Valid: valid, Preferred: preferred, Mark: Mark}
	}
	elsewhere := lasts(40*time.Second, 40*time.Second)
	elsewhere.Link = "eth1"
	for _, tt := range []struct {
		name   string
		found  []Address
		wanted Address
		want   time.Duration
	}{
		{"a new address", nil, lasts(60*time.Second, 60*time.Second), 31 * time.Second},
		{"an address that is refreshed now", []Address{lasts(20*time.Second, 20*time.Second)}, lasts(60*time.Second, 60*time.Second), 31 * time.Second},
		{"an address that is refreshed later", []Address{lasts(40*time.Second, 40*time.Second)}, lasts(60*time.Second, 60*time.Second), 11 * time.Second},
		{"a new address that is preferred for a shorter time", nil, lasts(60*time.Second, 20*time.Second), 11 * time.Second},
		{"an address that is preferred for a shorter time", []Address{lasts(55*time.Second, 15*time.Second)}, lasts(60*time.Second, 20*time.Second), 6 * time.Second},
		{"a deprecated address", nil, lasts(60*time.Second, 0), 31 * time.Second},
		{"an address for ever", []Address{lasts(Forever, Forever)}, lasts(Forever, Forever), time.Minute},
		{"an address that moves to another link", []Address{elsewhere}, lasts(60*time.Second, 60*time.Second), 31 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := NextRefresh(begin, Node{Addresses: tt.found}, []Address{tt.wanted}, time.Minute).Sub(begin); got != tt.want {
				t.Errorf("the next refresh is in %v, want %v", got, tt.want)
			}
		})
	}
}
