package announce_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/labels"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/service"
)

const lifetime = 60 * time.Second

// wantLocal and wantRemote return addresses as they should be. hasLocal and hasRemote return
// them as we put them there, and hasNode an address that is not ours.
func wantLocal(link, prefix string) announce.Address {
	a := announce.Address{Prefix: netip.MustParsePrefix(prefix), Link: link, Valid: lifetime, NoPrefixRoute: true}
	if a.Prefix.Addr().Is4() {
		a.Preferred = lifetime
	}
	return a
}

func wantRemote(link, prefix string) announce.Address {
	a := hasNode(link, prefix)
	if a.Prefix.Addr().Is6() {
		a.Preferred = 0
	}
	return a
}

func hasLocal(link, prefix string, left time.Duration) announce.Address {
	a := wantLocal(link, prefix)
	a.Valid, a.Mark = left, announce.Mark
	if a.Prefix.Addr().Is4() {
		a.Preferred = left
	}
	return a
}

func hasRemote(link, prefix string) announce.Address { return with(wantRemote(link, prefix), marked) }

func hasNode(link, prefix string) announce.Address {
	return announce.Address{Prefix: netip.MustParsePrefix(prefix), Link: link, Valid: announce.Forever, Preferred: announce.Forever}
}

func list(addrs ...announce.Address) []announce.Address { return addrs }

func marked(a *announce.Address) { a.Mark = announce.Mark }

func with(a announce.Address, change func(*announce.Address)) announce.Address {
	change(&a)
	return a
}

// In the cluster of these tests, node-a, node-b and node-c are in 10.0.0.0/24,
// 192.168.1.0/24, fd00::/64 and 2001:db8::/64. The decisions are those of node-a. By hash,
// node-a gets 10.0.0.5 and fd00::50, node-b gets 2001:db8::1, and node-c gets 192.168.1.100.
var segment = []string{"10.0.0.0/24", "192.168.1.0/24", "fd00::/64", "2001:db8::/64"}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// sources returns addresses to ask from, each with its network.
func sources(own ...netip.Prefix) (all []announce.Source) {
	for _, p := range own {
		all = append(all, announce.Source{Addr: p.Addr(), Network: p.Masked()})
	}
	return all
}

func addrs(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func member(node string, subnets ...string) election.Member {
	return election.Member{Node: node, Subnets: prefixes(subnets...), Eligible: true}
}

func groupOf(kind groups.Announce, pools ...string) groups.Group {
	g := groups.Group{Name: strings.Join(pools, "+"), Announce: kind}
	for _, text := range pools {
		p, err := groups.ParsePool(text, text, "default")
		if err != nil {
			panic(err)
		}
		g.Pools = append(g.Pools, p)
	}
	return g
}

func groupsOf(all ...groups.Group) groups.Groups { return groups.New(all, all, nil, nil) }

// theSituation is the view of node-a without faults and without Services.
func theSituation() announce.Situation {
	return announce.Situation{
		Self:     "node-a",
		Complete: true,
		Config: config.Config{Groups: groups.Groups{Usable: []groups.Group{
			groupOf(groups.AnnounceLocal, "10.0.0.0/25", "192.168.1.0/24", "fd00::/120", "2001:db8::/120"),
			groupOf(groups.AnnounceLocal, "172.18.0.0/24", "fd18::/64"),
			groupOf(groups.AnnounceRemote, "172.16.0.0/24", "fd16::/64"),
			groupOf(groups.AnnounceAuto, "172.17.0.0/24", "fd17::/64", "10.0.0.128/25", "fd00::1:0/120"),
		}}},
		Agent: &config.Agent{
			Namespace: "purelb", Name: "default", Selector: labels.Everything(), Dummy: "kube-lb0",
			LocalAddress: config.AddressOptions{Valid: lifetime, Preferred: lifetime, NoPrefixRoute: true},
		},
		Node: announce.Node{
			Links: []announce.Link{
				{Name: "lo", Index: 1, Up: true, Carrier: true},
				{Name: "eth0", Index: 2, Up: true, Carrier: true, Default4: true, Default6: true},
				{Name: "eth1", Index: 3, Up: true, Carrier: true},
				{Name: "kube-lb0", Index: 4, Kind: "dummy", Up: true, Carrier: true},
			},
			Addresses: []announce.Address{
				hasNode("lo", "127.0.0.1/8"), hasNode("lo", "::1/128"),
				hasNode("eth0", "10.0.0.1/24"), hasNode("eth0", "192.168.1.1/24"),
				hasNode("eth0", "fd00::a/64"), hasNode("eth0", "2001:db8::a/64"), hasNode("eth0", "fe80::a/64"),
				hasNode("eth1", "10.9.0.1/16"), hasNode("eth1", "fd09::1/64"), hasNode("eth1", "fe80::b/64"),
			},
			MarksSupported: true,
		},
		Peers: election.Peers{
			Members: []election.Member{member("node-a", segment...), member("node-b", segment...), member("node-c", segment...)},
			Known:   prefixes(segment...),
			Trusted: true,
		},
		Endpoints: announce.Endpoints{},
	}
}

// begin is when tests begin.
var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type twist func(*announce.Situation)

// situation returns theSituation with changes.
func situation(changes ...twist) announce.Situation {
	s := theSituation()
	for _, change := range changes {
		change(&s)
	}
	s.Adopt()
	return s
}

// decisions are views of node-a, and what it decides on each address: see show.
type decisions []struct {
	name  string
	given []twist
	want  string
}

// check checks all of them, with changes that they have in common.
func (all decisions) check(t *testing.T, common ...twist) {
	t.Helper()
	for _, tt := range all {
		t.Run(tt.name, func(t *testing.T) {
			equal(t, show(announce.Decide(situation(slices.Concat(common, tt.given)...))), tt.want)
		})
	}
}

// equal fails the test if got is not as wanted.
func equal[T any](t testing.TB, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// serve adds a Service web with these addresses.
func serve(ips ...string) twist { return serveAs("default/web", nil, ips...) }

func serveAs(key string, change func(*announce.Service), ips ...string) twist {
	return func(s *announce.Situation) {
		svc := announce.Service{Key: key, Addresses: addrs(ips...)}
		if change != nil {
			change(&svc)
		}
		s.Services = append(s.Services, svc)
	}
}

func narrow(s *announce.Service)  { s.LocalPolicy = true }
func skipDAD(s *announce.Service) { s.SkipIPv6DAD = true }
func remote(s *announce.Service)  { s.PoolType = service.PoolRemote }

func slots(texts ...string) func(*announce.Service) {
	return func(s *announce.Service) { s.Slots = service.ParseSlots(strings.Join(texts, " ")) }
}

func has(addresses ...announce.Address) twist {
	return func(s *announce.Situation) { s.Node.Addresses = append(s.Node.Addresses, addresses...) }
}

// onNodes returns the nodes with endpoints of a Service, the same for both families.
func onNodes(key string, nodes ...string) announce.Endpoints {
	return announce.Endpoints{{key, addr.V4}: nodes, {key, addr.V6}: nodes}
}

// withoutMarks makes the kernel one before 5.18.
func withoutMarks(s *announce.Situation) {
	s.Node.MarksSupported = false
	for i := range s.Node.Addresses {
		s.Node.Addresses[i].Mark = 0
	}
}

func members(m ...election.Member) twist { return func(s *announce.Situation) { s.Peers.Members = m } }
func untrusted(s *announce.Situation)    { s.Peers.Trusted = false }
func incomplete(s *announce.Situation)   { s.Complete, s.Config, s.Agent = false, config.Config{}, nil }
func noAgent(s *announce.Situation)      { s.Agent = nil }
func brokenAgent(s *announce.Situation)  { s.Agent, s.Broken = nil, true }

// each maps all addresses to the same value.
func each[V any](value V, ips ...string) map[netip.Addr]V {
	all := map[netip.Addr]V{}
	for _, ip := range addrs(ips...) {
		all[ip] = value
	}
	return all
}

// held and heldRemote set the addresses that this agent has had until now.
func held(link string, ips ...string) twist {
	return func(s *announce.Situation) { s.Held = each(link, ips...) }
}

func heldRemote(ip string) twist {
	return func(s *announce.Situation) { s.HeldRemote = each("kube-lb0", ip) }
}

// owned makes these addresses node's own.
func owned(node string, ips ...string) twist {
	return func(s *announce.Situation) { s.Peers.Own = each(node, ips...) }
}

func noGroups(s *announce.Situation) { s.Config.Groups = groups.Groups{} }

func matching(expression string) twist {
	return func(s *announce.Situation) {
		s.Agent.Local, s.Agent.LocalText = regexp.MustCompile("^(?:"+expression+")$"), expression
	}
}

func further(names ...string) twist {
	return func(s *announce.Situation) { s.Agent.Interfaces = names }
}

// link changes a link of the node.
func link(name string, change func(*announce.Link)) twist {
	return func(s *announce.Situation) {
		for i := range s.Node.Links {
			if s.Node.Links[i].Name == name {
				change(&s.Node.Links[i])
			}
		}
	}
}

func down(name string) twist { return link(name, func(l *announce.Link) { l.Up = false }) }
func dark(name string) twist { return link(name, func(l *announce.Link) { l.Carrier = false }) }

// show prints a plan: the decision on each address, and further wanted addresses as leftover. It
// leaves out the name of the Service default/web.
func show(p announce.Plan) string {
	var b strings.Builder
	left := map[announce.Address]bool{}
	for _, w := range p.Wanted {
		left[w] = true
	}
	for _, d := range p.Decisions {
		if d.Service != "default/web" {
			b.WriteString(d.Service + " ")
		}
		switch {
		case d.Where != announce.Nowhere:
			fmt.Fprintf(&b, "%s: %s, %s, %s\n", d.IP, d.Where, d.Reason, showAddress(d.Address))
			delete(left, d.Address)
		case d.Winner != "":
			fmt.Fprintf(&b, "%s: no, %s, %s\n", d.IP, d.Reason, d.Winner)
		default:
			fmt.Fprintf(&b, "%s: no, %s\n", d.IP, d.Reason)
		}
	}
	for _, w := range p.Wanted {
		if left[w] {
			fmt.Fprintf(&b, "leftover: %s\n", showAddress(w))
		}
	}
	return b.String()
}

// showAddress prints an address. One with the attributes of local addresses is "expiring".
func showAddress(a announce.Address) string {
	text := fmt.Sprintf("%s dev %s", a.Prefix, a.Link)
	local := wantLocal(a.Link, a.Prefix.String())
	switch {
	case a.Valid == local.Valid && a.Preferred == local.Preferred && a.NoPrefixRoute:
		text += " expiring"
	case a.Valid != announce.Forever || a.Prefix.Addr().Is6() && a.Preferred != 0:
		text += fmt.Sprintf(" valid %s preferred %s", a.Valid, a.Preferred)
		fallthrough
	case a.NoPrefixRoute:
		text += fmt.Sprintf(" noprefixroute %t", a.NoPrefixRoute)
	}
	if a.NoDAD {
		text += " nodad"
	}
	return text
}
