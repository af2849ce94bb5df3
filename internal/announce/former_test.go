package announce_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
)

// bare takes the node's own addresses and the default routes off eth0.
func bare(s *announce.Situation) {
	s.Node.Addresses = slices.DeleteFunc(s.Node.Addresses, func(a announce.Address) bool { return a.Link == "eth0" })
	link("eth0", func(l *announce.Link) { l.Default4, l.Default6 = false, false })(s)
}

// steps are situations, and the networks of the node at each of them.
func TestNetworksThatVanishStayForAMoment(t *testing.T) {
	const all, none = "[10.0.0.0/24 192.168.1.0/24 2001:db8::/64 fd00::/64]", "[]"
	for _, tt := range []struct {
		name  string
		then  []twist
		after time.Duration
		want  string
	}{
		{"at once", []twist{bare}, 0, all},
		{"for some seconds", []twist{bare}, 4 * time.Second, all},
		{"not for longer", []twist{bare}, 6 * time.Second, none},
		{"not without a carrier", []twist{bare, dark("eth0")}, 0, none},
		{"not if the carrier was away in the meantime", []twist{bare, link("eth0", func(l *announce.Link) { l.Flaps += 2 })}, 0, none},
		{"not on another link with the same name", []twist{bare, link("eth0", func(l *announce.Link) { l.Index = 77 })}, 0, none},
		{"not if the configuration has changed", []twist{matching("eth1")}, 0, "[10.9.0.0/16 fd09::/64]"},
		{"only the routes are gone", []twist{link("eth0", func(l *announce.Link) { l.Default4, l.Default6 = false, false })}, 0, all},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var n announce.Networks
			s := situation()
			equal(t, n.Observe(begin, *s.Agent, &s.Node), time.Time{})
			s = situation(tt.then...)
			n.Observe(begin.Add(time.Minute), *s.Agent, &s.Node)
			s = situation(tt.then...)
			n.Observe(begin.Add(time.Minute+tt.after), *s.Agent, &s.Node)
			equal(t, fmt.Sprint(announce.Subnets(s.Agent, s.Node)), tt.want)
		})
	}
}

// With the mask of the network, an IPv4 address would become the primary one. Then the node's own address
// gets no route when it comes back.
func TestAnAddressOfAFormerNetworkStandsAlone(t *testing.T) {
	var n announce.Networks
	s := situation(serve("10.0.0.5", "fd00::50"))
	n.Observe(begin, *s.Agent, &s.Node)
	bare(&s)
	n.Observe(begin, *s.Agent, &s.Node)
	equal(t, show(announce.Decide(s)), "10.0.0.5: local, electionWon, 10.0.0.5/32 dev eth0 expiring\nfd00::50: local, electionWon, fd00::50/64 dev eth0 expiring\n")
}

func TestAddressesThatWereHereLately(t *testing.T) {
	before := theSituation().Node.Links
	for _, tt := range []struct {
		name   string
		change twist
		want   string
	}{
		{"the link works", func(*announce.Situation) {}, "map[10.0.0.5:eth0]"},
		{"it has no carrier", dark("eth0"), "map[]"},
		{"it had none for a moment", link("eth0", func(l *announce.Link) { l.Flaps++ }), "map[]"},
		{"it is another link", link("eth0", func(l *announce.Link) { l.Index++ }), "map[]"},
		{"it is gone", link("eth0", func(l *announce.Link) { l.Name = "eth7" }), "map[]"},
	} {
		now := situation(tt.change).Node.Links
		equal(t, fmt.Sprint(announce.Lately(each("eth0", "10.0.0.5"), before, now)), tt.want)
	}
}

// A network manager takes the address off that this node held a moment ago. No other node can have it yet.
func TestAnAddressThatVanishedIsAddedWithoutAProbe(t *testing.T) {
	p := elected("eth0")
	node := announce.Node{Links: theSituation().Node.Links}
	for name, tt := range map[string]struct {
		lately map[netip.Addr]string
		want   string
	}{
		"it was here":                        {each("eth0", v4), "add 1, probe 0"},
		"it was on another link":             {each("eth1", v4), "add 0, probe 1"},
		"it was not here, or the link broke": {nil, "add 0, probe 1"},
	} {
		t.Run(name, func(t *testing.T) {
			does := announce.Addresses{Self: "node-a", Limit: announce.HandoverLimit}
			s := does.Come(begin, beside(node), p, p.Wanted, tt.lately)
			equal(t, fmt.Sprintf("add %d, probe %d", len(s.Add), len(s.Probe)), tt.want)
		})
	}
}
