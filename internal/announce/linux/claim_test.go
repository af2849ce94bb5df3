package linux

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/expect"
)

func TestANeighborWithAnOldEntryIsCorrectedByAClaim(t *testing.T) {
	for _, tt := range []struct{ ours, theirs, addr string }{
		{"192.0.2.9/24", "192.0.2.2/24", "192.0.2.9"},
		{"fd00::9/64", "fd00::2/64", "fd00::9"},
	} {
		t.Run(tt.addr, func(t *testing.T) {
			newWorld(t)
			other := newNeighborhood(t)
			other.ip(t, "addr add "+tt.theirs+" dev eth0\nneigh add "+tt.addr+" lladdr 02:00:00:00:00:99 dev eth0 nud reachable")
			s := newStack(t)
			put(t, s, local("eth0", tt.ours))
			expect.NoError(t, s.Claim(t.Context(), "eth0", netip.MustParseAddr(tt.addr)))
			eventually(t, "the neighbor has our MAC", func() bool {
				return strings.Contains(other.ip(t, "neigh show "+tt.addr+" dev eth0"), "02:00:00:00:00:01")
			})
		})
	}
}

// The queue of a link may be full for a moment, for example when many addresses move at once.
func TestPacketsWaitForRoomInTheQueueOfALink(t *testing.T) {
	newWorld(t)
	newNeighborhood(t)
	tc := func(argv ...string) {
		t.Helper()
		if out, err := exec.Command("tc", append([]string{"qdisc"}, argv...)...).CombinedOutput(); err != nil {
			t.Fatalf("tc qdisc %v: %v\n%s", argv, err, out)
		}
	}
	tc("add", "dev", "eth0", "root", "pfifo", "limit", "0") // always full
	s, a := newStack(t), netip.MustParseAddr("192.0.2.9")
	waited := time.Duration(0)
	s.wait = func(_ context.Context, d time.Duration) error {
		waited += d
		return nil
	}
	if err := s.Claim(t.Context(), "eth0", a); !errors.Is(err, unix.ENOBUFS) {
		t.Errorf("a claim while the queue stays full: %v", err)
	}
	if each := waited / 2; each < 500*time.Millisecond || each > 2*time.Second { // a request and a reply
		t.Errorf("a packet waits for %s", each)
	}
	times := 0
	s.wait = func(context.Context, time.Duration) error {
		if times++; times == 3 {
			tc("del", "dev", "eth0", "root")
		}
		return nil
	}
	expect.NoError(t, s.Claim(t.Context(), "eth0", a))
	expect.Equal(t, "how often the claim waited", times, 3)
}

func TestClaimsOnTheWire(t *testing.T) {
	const (
		broadcast = "ffffffffffff 020000000001 0806"
		multicast = "333300000001 020000000001 86dd"
		ipv6      = "60000000 0020 3a ff"
		all       = "ff020000000000000000000000000001"
	)
	tests := []struct {
		name string
		addr string
		put  bool // whether the address is on the link
		// forwards means that the node is a router, at least on this link.
		forwards bool
		want     []string
	}{
		{
			name: "IPv4: a request, then a reply",
			addr: "192.0.2.9", put: true,
			want: []string{
				broadcast + "0001 0800 06 04 0001 020000000001 c0000209 000000000000 c0000209",
				broadcast + "0001 0800 06 04 0002 020000000001 c0000209 020000000001 c0000209",
			},
		},
		{
			name: "IPv6: an advertisement from the address itself",
			addr: "fd00::9", put: true,
			want: []string{multicast + ipv6 + "fd000000000000000000000000000009" + all +
				"88 00 5a8b 20000000 fd000000000000000000000000000009 02 01 020000000001"},
		},
		{
			name: "IPv6: an advertisement of a router",
			addr: "fd00::9", put: true, forwards: true,
			want: []string{multicast + ipv6 + "fd000000000000000000000000000009" + all +
				"88 00 da8a a0000000 fd000000000000000000000000000009 02 01 020000000001"},
		},
		{
			name: "IPv6: an advertisement from the link's address while ours is not usable",
			addr: "fd00::9",
			want: []string{multicast + ipv6 + "fe80000000000000000000fffe000001" + all +
				"88 00 5a13 20000000 fd000000000000000000000000000009 02 01 020000000001"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			newWorld(t)
			other := newNeighborhood(t)
			fd := other.capture(t)
			if tt.forwards {
				sysctl(t, "ipv6.conf.eth0.forwarding", "1")
			}
			s := newStack(t)
			addr := netip.MustParseAddr(tt.addr)
			if tt.put {
				put(t, s, local("eth0", netip.PrefixFrom(addr, 24).String()))
			} else {
				served(t, "eth0", "fe80:")
			}
			expect.NoError(t, s.Claim(t.Context(), "eth0", addr))
			for _, want := range tt.want {
				got := frame(t, fd, isClaim)
				expect.Equal(t, "frame", hex.EncodeToString(got), strings.ReplaceAll(want, " ", ""))
			}
		})
	}
}

// isClaim reports whether Claim sent the frame. The link also sends frames by itself.
func isClaim(frame []byte) bool {
	arp := bytes.HasPrefix(frame[12:], []byte{0x08, 0x06})
	advertisement := len(frame) > 54 && frame[20] == icmpv6 && frame[54] == neighborAdvertisement
	return bytes.Equal(frame[6:12], testMAC[:]) && (arp || advertisement)
}

func TestClaimOnALinkWithoutNeighborsDoesNothing(t *testing.T) {
	newWorld(t)
	s := newStack(t)
	dummy(t, s)
	for _, link := range []string{"lo", "kube-lb0"} {
		for _, addr := range []string{"192.0.2.9", "fd00::9"} {
			if err := s.Claim(t.Context(), link, netip.MustParseAddr(addr)); err != nil {
				t.Error(err)
			}
		}
	}
	if got := ip(t, "-s -s link show kube-lb0"); strings.Contains(got, "dropped 1") {
		t.Errorf("something was sent:\n%s", got)
	}
}

func TestImpossibleClaimIsAnError(t *testing.T) {
	newWorld(t)
	s := newStack(t)
	ip(t, "link add eth0 type veth peer name eth1\nlink set eth0 addrgenmode none")
	for _, tt := range []struct {
		link, addr string
		want       string
	}{
		{"eth7", "192.0.2.9", "claim 192.0.2.9 on eth7: no such device"},
		{"eth0", "192.0.2.9", "claim 192.0.2.9 on eth0: sendto: " + unix.ENETDOWN.Error()},
		{"eth0", "fd00::9", "claim fd00::9 on eth0: no usable source address on the link"},
	} {
		err := s.Claim(t.Context(), tt.link, netip.MustParseAddr(tt.addr))
		if got := problems(err); !strings.HasPrefix(got, tt.want) {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
