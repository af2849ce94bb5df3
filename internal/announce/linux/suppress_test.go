package linux

import (
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/testing/expect"
)

// bridged puts a bridge between eth0 and the neighborhood, like the switches of a fabric.
// port-there is its port to the neighborhood.
func bridged(t *testing.T) neighborhood {
	t.Helper()
	other := newNeighborhood(t)
	ip(t, `link set eth0 down
		link set eth0 name port-there
		link add eth0 type veth peer name port-here
		link add br0 type bridge forward_delay 0 mcast_snooping 0
		link set port-there address 02:00:00:00:00:a1 master br0
		link set port-here master br0
		link set eth0 address 02:00:00:00:00:01
		link set br0 up
		link set port-there up
		link set port-here up
		link set eth0 up`)
	for _, link := range []string{"br0", "port-there", "port-here", "eth0"} {
		isUp(t, link)
	}
	return other
}

// A bridge that suppresses ARP and Neighbor Discovery does not forward questions without a sender
// address. It forwards ordinary questions that it cannot answer itself.
func TestAProbeReachesHostsBehindSuppression(t *testing.T) {
	const holder = "192.0.2.9 020000000002\nfd00::9 020000000002\n"
	for _, tt := range []struct {
		name     string
		there    string
		sources  []announce.Source
		requests bool
		want     string
	}{
		{"a question without a sender address does not arrive", "addr add 192.0.2.9/24 dev eth0\naddr add fd00::9/64 dev eth0 nodad", nil, false, ""},
		{"an ordinary question arrives", "addr add 192.0.2.9/24 dev eth0\naddr add fd00::9/64 dev eth0 nodad",
			sources("198.51.100.1/24", "192.0.2.1/24", "fd00::1/64"), false, holder},
		{"an ordinary question alone arrives", "addr add 192.0.2.9/24 dev eth0\naddr add fd00::9/64 dev eth0 nodad",
			sources("192.0.2.1/24", "fd00::1/64"), true, holder},
		{"no answer if no host has the addresses", "",
			sources("192.0.2.1/24", "fd00::1/64"), false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newWorld(t)
			other := bridged(t)
			if out, err := exec.Command("bridge", "link", "set", "dev", "port-there", "neigh_suppress", "on").CombinedOutput(); err != nil {
				t.Fatalf("bridge link set: %v\n%s", err, out)
			}
			ip(t, "addr add 192.0.2.1/24 dev eth0\naddr add fd00::1/64 dev eth0 nodad")
			other.ip(t, tt.there)
			s := newStack(t)
			settle(t, s)
			answersAre(t, tt.want, func() announce.Answers {
				return probeUntil(t, func() (announce.Answers, error) {
					asking := shortly
					asking.Sources, asking.Requests = tt.sources, tt.requests
					return s.Probe(t.Context(), "eth0", addrsOf("192.0.2.9", "fd00::9"), asking)
				})
			})
		})
	}
}

// A router with local proxy ARP answers for the addresses of its own network.
func TestARouterWithLocalProxyARPAnswersForEveryAddress(t *testing.T) {
	newWorld(t)
	router := newNeighborhood(t)
	ip(t, "addr add 192.0.2.1/24 dev eth0")
	router.ip(t, "addr add 192.0.2.254/24 dev eth0")
	router.do(func() {
		sysctl(t, "ipv4.ip_forward", "1")
		sysctl(t, "ipv4.conf.eth0.proxy_arp_pvlan", "1")
	})
	s := newStack(t)
	for _, ip := range []string{"192.0.2.9", "192.0.2.77", "192.0.2.200"} {
		answersAre(t, ip+" 020000000002\n", func() announce.Answers {
			asking := announce.Probing{Count: 2, Interval: 40 * time.Millisecond, Wait: 60 * time.Millisecond, Sources: sources("192.0.2.1/24")}
			answers, err := s.Probe(t.Context(), "eth0", []netip.Addr{netip.MustParseAddr(ip)}, asking)
			expect.NoError(t, err)
			return answers
		})
	}
}
