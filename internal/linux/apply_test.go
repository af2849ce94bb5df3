package linux

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
)

func TestPutAndRemove(t *testing.T) {
	tests := []struct {
		name   string
		before string // ip commands
		act    func(*testing.T, *Stack)
		want   string // addresses of eth0
	}{
		{
			name: "local addresses expire, add no route and, in IPv6, are no source address",
			act: func(t *testing.T, s *Stack) {
				put(t, s, local("eth0", "192.0.2.9/24"), local("eth0", "fd00::9/64"))
			},
			want: "192.0.2.9/24 valid 1h preferred 1h noprefixroute mark 80\n" +
				"fd00::9/64 valid 1h preferred 0h nodad noprefixroute mark 80\n",
		},
		{
			name: "remote addresses are permanent",
			act: func(t *testing.T, s *Stack) {
				put(t, s, remote("eth0", "198.51.100.1/32"), remote("eth0", "2001:db8::1/128"))
			},
			want: "198.51.100.1/32 valid forever preferred forever mark 80\n" +
				"2001:db8::1/128 valid forever preferred forever nodad mark 80\n",
		},
		{
			name: "putting again renews",
			act: func(t *testing.T, s *Stack) {
				for _, valid := range []time.Duration{time.Hour, 3 * time.Hour} {
					a, b := local("eth0", "192.0.2.9/24"), local("eth0", "fd00::9/64")
					a.Valid, a.Preferred, b.Valid = valid, valid, valid
					put(t, s, a, b)
				}
			},
			want: "192.0.2.9/24 valid 3h preferred 3h noprefixroute mark 80\n" +
				"fd00::9/64 valid 3h preferred 0h nodad noprefixroute mark 80\n",
		},
		{
			name: "a second Put changes attributes, also those that the kernel cannot change in place",
			act: func(t *testing.T, s *Stack) {
				put(t, s, local("eth0", "192.0.2.9/24"), local("eth0", "fd00::9/64"))
				put(t, s, remote("eth0", "192.0.2.9/24"), remote("eth0", "fd00::9/64"))
			},
			want: "192.0.2.9/24 valid forever preferred forever mark 80\n" +
				"fd00::9/64 valid forever preferred forever nodad mark 80\n",
		},
		{
			name: "a new mask is added in IPv4, and replaces the old one in IPv6",
			act: func(t *testing.T, s *Stack) {
				put(t, s, remote("eth0", "192.0.2.9/32"), remote("eth0", "fd00::9/128"))
				put(t, s, remote("eth0", "192.0.2.9/24"), remote("eth0", "fd00::9/64"))
			},
			want: "192.0.2.9/32 valid forever preferred forever mark 80\n" +
				"192.0.2.9/24 valid forever preferred forever mark 80\n" +
				"fd00::9/64 valid forever preferred forever nodad mark 80\n",
		},
		{
			name: "removing the old mask leaves the new one",
			act: func(t *testing.T, s *Stack) {
				put(t, s, remote("eth0", "192.0.2.9/32"), remote("eth0", "fd00::9/128"))
				put(t, s, remote("eth0", "192.0.2.9/24"), remote("eth0", "fd00::9/64"))
				remove(t, s, remote("eth0", "192.0.2.9/32"), remote("eth0", "fd00::9/128"))
			},
			want: "192.0.2.9/24 valid forever preferred forever mark 80\n" +
				"fd00::9/64 valid forever preferred forever nodad mark 80\n",
		},
		{
			name: "removing a missing address is no error",
			act: func(t *testing.T, s *Stack) {
				put(t, s, local("eth0", "192.0.2.9/24"), local("eth0", "fd00::9/64"))
				for range 2 {
					remove(t, s, local("eth0", "192.0.2.9/24"), local("eth0", "fd00::9/64"), local("eth7", "fd00::9/64"))
				}
			},
		},
		{
			name:   "Remove leaves foreign addresses",
			before: "addr add 192.0.2.9/24 dev eth0\naddr add fd00::9/64 dev eth0 nodad",
			act: func(t *testing.T, s *Stack) {
				remove(t, s, local("eth0", "192.0.2.9/24"), local("eth0", "fd00::9/64"))
			},
			want: "192.0.2.9/24 valid forever preferred forever\n" +
				"fd00::9/64 valid forever preferred forever nodad\n",
		},
		{
			name:   "Put does not take over foreign addresses",
			before: "addr add 192.0.2.9/24 dev eth0\naddr add fd00::9/64 dev eth0 nodad\naddr add 192.0.2.8/32 dev eth0",
			act: func(t *testing.T, s *Stack) {
				addrs := []announce.Address{local("eth0", "192.0.2.9/24"), local("eth0", "fd00::9/64"), local("eth0", "192.0.2.8/24")}
				err := s.Put(t.Context(), addrs)
				if got := announce.AddressErrors(err); len(got) != 3 || !errors.Is(got[0], ErrForeign) {
					t.Errorf("got %v, want ErrForeign for each", err)
				}
			},
			want: "192.0.2.9/24 valid forever preferred forever\n" +
				"192.0.2.8/32 valid forever preferred forever\n" +
				"fd00::9/64 valid forever preferred forever nodad\n",
		},
		{
			name: "Put adds what it can, and returns the kernel's reason for each failure",
			act: func(t *testing.T, s *Stack) {
				impossible := local("eth0", "192.0.2.7/24")
				impossible.Preferred = 2 * impossible.Valid
				err := s.Put(t.Context(), []announce.Address{
					local("eth0", "192.0.2.9/24"), impossible, local("eth7", "192.0.2.6/24"), local("eth0", "fd00::9/64"),
				})
				want := "192.0.2.6/24 on eth7: no such device\n192.0.2.7/24 on eth0: ipv4: address lifetime invalid (invalid argument)"
				equal(t, "error", errorText(err), want)
			},
			want: "192.0.2.9/24 valid 1h preferred 1h noprefixroute mark 80\n" +
				"fd00::9/64 valid 1h preferred 0h nodad noprefixroute mark 80\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			newWorld(t)
			ip(t, "link add eth0 type bridge\nlink set eth0 up\n"+tt.before)
			s := newStack(t)
			tt.act(t, s)
			equal(t, "addresses", addresses(t, s, "eth0"), tt.want)
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return strings.ToLower(err.Error())
}

func TestAddressesMatchTheReferenceInIproute2(t *testing.T) {
	newWorld(t)
	ip(t, "link add eth0 type bridge\nlink set eth0 up\naddr add 192.0.2.1/24 dev eth0\naddr add fd00::1/64 dev eth0 nodad")
	s := newStack(t)
	put(t, s, local("eth0", "192.0.2.9/24"), local("eth0", "fd00::9/64"))
	for _, want := range []string{
		"inet 192.0.2.9/24 brd 192.0.2.255 scope global secondary dynamic noprefixroute eth0",
		"inet6 fd00::9/64 scope global nodad deprecated dynamic noprefixroute",
	} {
		if got := ip(t, "-o addr show dev eth0"); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestKernelRemovesExpiredAddresses(t *testing.T) {
	newWorld(t)
	ip(t, "link add eth0 type bridge\nlink set eth0 up")
	s := newStack(t)
	a, b := local("eth0", "192.0.2.9/24"), local("eth0", "fd00::9/64")
	a.Valid, a.Preferred, b.Valid = time.Second, time.Second, time.Second
	put(t, s, a, b, remote("eth0", "198.51.100.1/32"))
	eventually(t, "only the permanent address is left", func() bool {
		return addresses(t, s, "eth0") == "198.51.100.1/32 valid forever preferred forever mark 80\n"
	})
}

func TestOnlyRemoteAddressesAddARoute(t *testing.T) {
	newWorld(t)
	ip(t, "link add eth0 type bridge\nlink set eth0 up")
	s := newStack(t)
	put(t, s, local("eth0", "192.0.2.9/24"), local("eth0", "fd00:1::9/64"),
		remote("eth0", "198.51.100.1/24"), remote("eth0", "2001:db8::1/64"))
	got := ip(t, "-4 route show") + ip(t, "-6 route show")
	for prefix, want := range map[string]bool{
		"192.0.2.0/24": false, "fd00:1::/64": false, "198.51.100.0/24": true, "2001:db8::/64": true,
	} {
		if strings.Contains(got, prefix) != want {
			t.Errorf("route to %s: want %v in\n%s", prefix, want, got)
		}
	}
}

func TestLocalIPv6AddressesAreNoSource(t *testing.T) {
	newWorld(t)
	ip(t, "link add eth0 type bridge\nlink set eth0 up\naddr add fd00::1/64 dev eth0 nodad")
	s := newStack(t)
	put(t, s, local("eth0", "fd00::ffff/64"))
	// The longest matching prefix alone would select fd00::ffff (RFC 6724 rule 8).
	if got := ip(t, "-6 route get fd00::fffe"); !strings.Contains(got, "src fd00::1 ") {
		t.Errorf("source is not the node's own address:\n%s", got)
	}
}

// Duplicate address detection takes a second or two. For a Service, that would be an outage.
func TestANewMaskDoesNotMakeAnIPv6AddressTentative(t *testing.T) {
	newWorld(t)
	newNeighborhood(t)
	s := newStack(t)
	a := remote("eth0", "fd00::9/128")
	a.NoDAD = false
	put(t, s, a)
	settle(t, s)
	a.Prefix = netip.MustParsePrefix("fd00::9/64")
	put(t, s, a)
	want := "fd00::9/64 valid forever preferred forever nodad mark 80\n"
	equal(t, "addresses", addresses(t, s, "eth0"), want)
}

// If promote_secondaries is off, the kernel's default, deleting a primary address deletes
// its secondary addresses too. The Stack changes the setting of a link only if it has to.
func TestRemovingAPrimaryAddressLeavesItsSecondaries(t *testing.T) {
	const node, ours8, ours9 = "192.0.2.1/24 valid forever preferred forever\n",
		"192.0.2.8/24 valid forever preferred forever mark 80\n", "192.0.2.9/24 valid forever preferred forever mark 80\n"
	for _, tt := range []struct {
		name     string
		act      func(*testing.T, *Stack)
		want     string
		promotes string
	}{
		{"the primary is removed", func(t *testing.T, s *Stack) { remove(t, s, remote("eth0", "192.0.2.9/24")) }, node + ours8, "1"},
		{"the primary is replaced", func(t *testing.T, s *Stack) { put(t, s, local("eth0", "192.0.2.9/24")) },
			node + ours8 + "192.0.2.9/24 valid 1h preferred 1h noprefixroute mark 80\n", "1"},
		{"a secondary is removed", func(t *testing.T, s *Stack) { remove(t, s, remote("eth0", "192.0.2.8/24")) }, ours9 + node, "0"},
		{"an address with another mask is removed", func(t *testing.T, s *Stack) {
			put(t, s, remote("eth0", "192.0.2.7/32"))
			remove(t, s, remote("eth0", "192.0.2.7/32"))
		}, ours9 + node + ours8, "0"},
		{"an address of another subnet is removed", func(t *testing.T, s *Stack) {
			put(t, s, remote("eth0", "198.51.100.1/24"))
			remove(t, s, remote("eth0", "198.51.100.1/24"))
		}, ours9 + node + ours8, "0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newWorld(t)
			ip(t, "link add eth0 type bridge\nlink set eth0 up")
			sysctl(t, "ipv4.conf.all.promote_secondaries", "0")
			sysctl(t, "ipv4.conf.eth0.promote_secondaries", "0")
			s := newStack(t)
			put(t, s, remote("eth0", "192.0.2.9/24"))
			ip(t, "addr add 192.0.2.1/24 dev eth0") // secondary to our address
			put(t, s, remote("eth0", "192.0.2.8/24"))
			tt.act(t, s)
			equal(t, "addresses", addresses(t, s, "eth0"), tt.want)
			setting, err := os.ReadFile("/proc/sys/net/ipv4/conf/eth0/promote_secondaries")
			must(t, err)
			equal(t, "promote_secondaries", strings.TrimSpace(string(setting)), tt.promotes)
		})
	}
}

func TestWithoutMarksTheCallerDecides(t *testing.T) {
	newWorld(t)
	ip(t, "link add eth0 type bridge\nlink set eth0 up\naddr add 192.0.2.9/24 dev eth0\naddr add fd00::9/64 dev eth0 nodad")
	s := newStack(t)
	s.marks = false
	if observe(t, s).MarksSupported {
		t.Error("Observe reports support of marks")
	}
	put(t, s, local("eth0", "192.0.2.9/24"))
	remove(t, s, local("eth0", "fd00::9/64"))
	want := "192.0.2.9/24 valid 1h preferred 1h noprefixroute mark 80\n"
	equal(t, "addresses", addresses(t, s, "eth0"), want)
}

// leased puts on eth0 the leftovers of an agent, and the addresses that NetworkManager adds for
// DHCP and router advertisements.
const leased = `link add eth0 type bridge
	link set eth0 up
	addr add 192.0.2.9/24 dev eth0 valid_lft 20 preferred_lft 20 noprefixroute
	addr add fd00::9/64 dev eth0 valid_lft 20 preferred_lft 0 noprefixroute nodad
	addr add 192.0.2.77/24 dev eth0 valid_lft 3600 preferred_lft 3600 noprefixroute
	addr add fd00::77/64 dev eth0 valid_lft 3600 preferred_lft 3600 noprefixroute nodad`

func TestWithoutMarksTheNodesAddressesStay(t *testing.T) {
	newWorld(t)
	ip(t, leased)
	s := newStack(t)
	s.marks = false
	known := announce.Situation{Complete: true, Node: observe(t, s), Services: []announce.Service{
		{Key: "default/web", Addresses: addrsOf("192.0.2.9", "fd00::9", "192.0.2.77", "fd00::77")},
	}}
	remove(t, s, announce.Diff(nil, known.Node, announce.Adopt(known)).Remove...)
	want := "192.0.2.77/24 valid 1h preferred 1h noprefixroute\n" +
		"fd00::77/64 valid 1h preferred 1h nodad noprefixroute\n"
	equal(t, "addresses", addresses(t, s, "eth0"), want)
}

func TestWithoutMarksPossiblyOurAddressesAreRefreshed(t *testing.T) {
	newWorld(t)
	ip(t, leased)
	s := newStack(t)
	s.marks = false
	unknown := announce.Situation{Node: observe(t, s)}
	changes := announce.Diff(announce.Decide(unknown).Wanted, unknown.Node, announce.Adopt(unknown))
	if len(changes.Add)+len(changes.Remove) > 0 {
		t.Errorf("more than refreshed: %+v", changes)
	}
	put(t, s, changes.Refresh...)
	for _, a := range observe(t, s).Addresses {
		if ours := a.Prefix.Addr() == addrsOf("192.0.2.9")[0] || a.Prefix.Addr() == addrsOf("fd00::9")[0]; ours && a.Valid <= 20*time.Second {
			t.Errorf("%s is left for %s", a.Prefix, a.Valid)
		} else if !ours && a.Mark == announce.Mark {
			t.Errorf("%s is touched", a.Prefix)
		}
	}
}

func TestMarkSupportIsReadFromTheKernel(t *testing.T) {
	newWorld(t)
	s := newStack(t)
	const unknown = 200 // like IFA_PROTO for kernels before 5.18
	for attribute, want := range map[uint16]bool{ifaProto: true, unix.IFA_FLAGS: true, unknown: false} {
		got, err := keepsAttribute(s.route, attribute)
		if err != nil || got != want {
			t.Errorf("attribute %d: got %v, %v; want %v", attribute, got, err, want)
		}
	}
	if got := ip(t, "-o -4 addr"); strings.Count(got, "\n") != 1 {
		t.Errorf("asking left something:\n%s", got)
	}
}
