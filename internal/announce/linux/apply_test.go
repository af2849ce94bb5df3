package linux

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/testing/expect"
)

func TestPutAddsWhatItCan(t *testing.T) {
	newWorld(t)
	ip(t, "link add eth0 type bridge\nlink set eth0 up")
	s := newStack(t)
	impossible := local("eth0", "192.0.2.7/24")
	impossible.Preferred = 2 * impossible.Valid
	err := s.Put(t.Context(), []announce.Address{
		local("eth0", "192.0.2.9/24"), impossible, local("eth7", "192.0.2.6/24"), local("eth0", "fd00::9/64"),
	})
	want := "192.0.2.6/24 on eth7: no such device\n192.0.2.7/24 on eth0: ipv4: address lifetime invalid (invalid argument)\n"
	expect.Equal(t, "the kernel's reason for each failure", problems(err), want)
	want = "192.0.2.9/24 valid 1h preferred 1h noprefixroute mark 80\n" +
		"fd00::9/64 valid 1h preferred 0h nodad noprefixroute mark 80\n"
	expect.Equal(t, "addresses", addresses(t, s, "eth0"), want)
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
		// The iproute2 of Debian 13 shows the mark, that of Debian 12 does not know it.
		if got := strings.ReplaceAll(ip(t, "-o addr show dev eth0"), " proto 0x50", ""); !strings.Contains(got, want) {
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
	expect.Equal(t, "addresses", addresses(t, s, "eth0"), want)
}

// kube-vip adds single addresses, and removes them when it ends. Ours come beside in IPv4, and in place in IPv6.
func TestAddressesOfKubeVIPAreJoined(t *testing.T) {
	newWorld(t)
	newNeighborhood(t)
	ip(t, "addr add 192.0.2.9/32 dev eth0\naddr add fd00::9/128 dev eth0 nodad")
	s := newStack(t)
	err := s.Put(t.Context(), []announce.Address{local("eth0", "192.0.2.9/24"), local("eth0", "fd00::9/128")})
	want := "192.0.2.9/24 on eth0: is there already, and not ours\nfd00::9/128 on eth0: is there already, and not ours\n"
	expect.Equal(t, "without a wish to join", problems(err), want)
	removed := addressesRemoved(t)
	for range 2 { // the second time is a refresh
		put(t, s, join("eth0", "192.0.2.9/24"), join("eth0", "fd00::9/128"))
	}
	const theirs, ours4 = "192.0.2.9/32 valid forever preferred forever\n", "192.0.2.9/24 valid 1h preferred 1h noprefixroute mark 80\n"
	const ours6 = "fd00::9/128 valid 1h preferred 0h nodad noprefixroute mark 80\n"
	expect.Equal(t, "both", addresses(t, s, "eth0"), theirs+ours4+ours6)
	expect.Equal(t, "removals", removed(), 0)
	ip(t, "addr del 192.0.2.9/32 dev eth0")
	expect.Equal(t, "after kube-vip", addresses(t, s, "eth0"), ours4+ours6)
	for family, address := range map[string]string{"-4": "192.0.2.9", "-6": "fd00::9"} {
		if got := ip(t, family+" route get "+address); !strings.Contains(got, "local "+address) {
			t.Errorf("the kernel does not accept %s: %s", address, got)
		}
	}
	// On the way back kube-vip adds its IPv4 address first.
	ip(t, "addr add 192.0.2.9/32 dev eth0")
	remove(t, s, join("eth0", "192.0.2.9/24"), join("eth0", "fd00::9/128"))
	expect.Equal(t, "after PureLB", addresses(t, s, "eth0"), theirs)
}

// addressesRemoved returns a function that counts the addresses that the kernel has removed since.
func addressesRemoved(t *testing.T) func() int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	expect.NoError(t, unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR}))
	return func() (n int) {
		buffer := make([]byte, 1<<16)
		for {
			size, _, err := unix.Recvfrom(fd, buffer, 0)
			if err != nil {
				return n
			}
			messages, err := syscall.ParseNetlinkMessage(buffer[:size])
			expect.NoError(t, err)
			for _, m := range messages {
				if m.Header.Type == unix.RTM_DELADDR {
					n++
				}
			}
		}
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
	expect.Equal(t, "addresses", addresses(t, s, "eth0"), want)
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
	known.Adopt()
	remove(t, s, announce.Diff(nil, known.Node).Remove...)
	want := "192.0.2.77/24 valid 1h preferred 1h noprefixroute\n" +
		"fd00::77/64 valid 1h preferred 1h nodad noprefixroute\n"
	expect.Equal(t, "addresses", addresses(t, s, "eth0"), want)
}

func TestWithoutMarksPossiblyOurAddressesAreRefreshed(t *testing.T) {
	newWorld(t)
	ip(t, leased)
	s := newStack(t)
	s.marks = false
	unknown := announce.Situation{Node: observe(t, s)}
	unknown.Adopt()
	changes := announce.Diff(announce.Decide(unknown).Wanted, unknown.Node)
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
	expect.Equal(t, "Observe reports support of marks", observe(t, s).MarksSupported, true)
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

// A node whose uplinks have only link-local addresses chooses its source among the addresses of all
// links, by the longest prefix that they have in common with the destination.
func TestADeprecatedRemoteAddressIsNoSource(t *testing.T) {
	newWorld(t)
	newNeighborhood(t)
	s := newStack(t)
	dummy(t, s)
	ip(t, `-6 addr add fd00:5::5/128 dev lo
		-6 route add default via fe80::ff dev eth0`)
	source := func() string {
		_, after, _ := strings.Cut(ip(t, "-6 route get 2001:4860:4860::8888"), " src ")
		return strings.Fields(after)[0]
	}
	a := remote("kube-lb0", "2001:db8:9::1/128")
	put(t, s, a)
	settle(t, s)
	expect.Equal(t, "the source beside a preferred address", source(), "2001:db8:9::1")
	a.Preferred = 0
	put(t, s, a)
	expect.Equal(t, "the source beside a deprecated address", source(), "fd00:5::5")
}
