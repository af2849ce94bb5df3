package gobgp

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

var update = flag.Bool("update", false, "write the table of docs/bgp-tune.md")

// The times are so far apart that the results differ clearly, also on a busy machine.
const (
	bfdInterval   = time.Second
	bfdMultiplier = 5
	holdTime      = 24 * time.Second
	restartTime   = 50 * time.Second
	// awayFor is the time from the end of a speaker to its next start. It is longer than BFD takes
	// and shorter than the hold time.
	awayFor = 12 * time.Second
	// observed is how long the test watches the routers. It is a little longer than the hold time
	// and the restart time together.
	observed = 90 * time.Second
	// powerAfter is the time between the SIGTERM of a speaker and the loss of power. A speaker
	// takes less than two seconds to end.
	powerAfter = 5 * time.Second
)

// setting is the configuration that all neighbors of a node have.
type setting struct{ bfd, gracefulRestart bool }

// settings are the rows of a router.
var settings = []setting{{true, true}, {true, false}, {false, true}, {false, false}}

// end is how a node or its speaker ends.
type end struct {
	title string
	// killed says that the speaker crashes. Otherwise it ends as after SIGTERM. forGood says
	// that no other speaker replaces it.
	killed, forGood bool
	// spoken says that the speaker ends before the node loses its power.
	spoken bool
	// dead says that the node loses its power. Otherwise the speaker starts again after awayFor.
	dead bool
}

// ends are the columns.
var ends = []end{
	{title: "the speaker crashes", spoken: true, killed: true},
	{title: "the speaker is rolled out", spoken: true},
	{title: "the power goes", dead: true},
	{title: "the node is shut down", spoken: true, forGood: true, dead: true},
	{title: "the power goes during a rollout", spoken: true, dead: true},
}

// endingNode is a node whose speaker has sessions with all routers. Two nodes announce its
// address: endingNode and a node that never ends.
type endingNode struct {
	*bgptest.Namespace
	setting
	end
	number  int
	port    *bgptest.Port
	speaker *speaker
	orders  orders
	// began is when the speaker ended, or when the power went.
	began time.Time
}

func (n *endingNode) address() netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(n.number)}) }
func (n *endingNode) service() netip.Addr {
	return netip.AddrFrom4([4]byte{198, 51, 100, byte(n.number)})
}

// endingRouter is a router and the measurements of its routes to the nodes.
type endingRouter struct {
	*bgptest.Router
	t   testing.TB
	asn uint32
	// bfdOption is the option of the router for BFD, with its name in docs/bgp-tune.md.
	bfdOption string
	// gone is the time at which the router first had no route to a node.
	gone map[*endingNode]time.Time
	// lost counts the probes without an answer for each node.
	lost map[*endingNode]int
}

// TestRoutersReactToEachEnd measures the table in docs/bgp-tune.md by which operators choose
// options. It lets nodes and speakers end in each way, with and without BFD and graceful restart.
// A router should remove a dead node at once, and should keep a node that works.
//
// All nodes end at the same time in one network, so the test takes as long as the slowest end.
//
// In short, the promise is proven without times: TestGracefulRestartChangesNoRouteOfRouters and
// TestAFinalStopWithdrawsRoutesDespiteGracefulRestart here, the end of BFD sessions in package bfd, and
// the ends of a node in lab/e2e/bgp_ends_test.go.
func TestRoutersReactToEachEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("it watches the routers for 90 s to measure a table of docs/bgp-tune.md")
	}
	w := &world{t: t, wire: bgptest.NewSegment(t), routers: 200}
	nodes := w.endingNodes()
	routers, peers := w.endingRouters(nodes)
	for _, n := range nodes {
		n.speaker = startSpeakerIn(t, n.Namespace, n.orders)
	}
	stays := netip.AddrFrom4([4]byte{192, 0, 2, 100})
	w.staying(stays, peers, nodes)
	for _, r := range routers {
		var want []string
		for _, n := range nodes {
			want = append(want, fmt.Sprintf("%v/32 via %v %v", n.service(), n.address(), stays))
		}
		r.Await(want...)
		r.awaitBFD(nodes)
	}
	observe(t, nodes, routers)
	compareTable(t, table(nodes, routers))
	for _, r := range routers {
		for _, n := range nodes {
			if !n.dead && !slices.ContainsFunc(r.Routes(), n.carries) {
				t.Errorf("%s has no route to node %d, whose speaker runs again: %+v, %s", r.title(), n.number, n.setting, n.title)
			}
		}
	}
}

// carries reports whether r is a route to the node.
func (n *endingNode) carries(r bgptest.Route) bool {
	return r.Prefix.Addr() == n.service() && slices.Contains(r.Via, n.address())
}

// endingNodes makes a node of every setting and end.
func (w *world) endingNodes() []*endingNode {
	var nodes []*endingNode
	for _, s := range settings {
		for _, e := range ends {
			n := &endingNode{Namespace: bgptest.NewNamespace(w.t), setting: s, end: e, number: len(nodes) + 1}
			n.port = w.wire.Join(n.Namespace, "eth0", n.address().String()+"/24")
			answers(n.Namespace, w.t, n.service())
			nodes = append(nodes, n)
		}
	}
	return nodes
}

const echoPort = 7

// answers adds the address of a Service to n, and answers the probes that n gets there.
func answers(n *bgptest.Namespace, t testing.TB, service netip.Addr) {
	t.Helper()
	n.IP(fmt.Sprintf("address add %v/32 dev lo", service))
	var conn *net.UDPConn
	var err error
	n.Do(func() {
		conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(service, echoPort)))
	})
	expect.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for buffer := make([]byte, 16); ; {
			n, from, err := conn.ReadFromUDPAddrPort(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			_, _ = conn.WriteToUDPAddrPort(buffer[:n], from)
		}
	}()
}

// endingRouters starts the routers, and sets the orders of the nodes.
func (w *world) endingRouters(nodes []*endingNode) ([]*endingRouter, map[netip.Addr]uint32) {
	var routers []*endingRouter
	peers := map[netip.Addr]uint32{}
	start := func(asn uint32, bfdOption string, run func(testing.TB, *bgptest.Namespace, string) *bgptest.Router, config func(own string) string) {
		w.routers++
		own := fmt.Sprintf("192.0.2.%d", w.routers)
		ns := bgptest.NewNamespace(w.t)
		ns.Sysctl("net.ipv4.fib_multipath_hash_policy", "1")
		w.wire.Join(ns, "eth0", own+"/24")
		r := &endingRouter{
			Router: run(w.t, ns, config(own)), t: w.t, asn: asn, bfdOption: bfdOption,
			gone: map[*endingNode]time.Time{}, lost: map[*endingNode]int{},
		}
		routers = append(routers, r)
		peers[netip.MustParseAddr(own)] = asn
	}
	for _, debian := range []bgptest.Suite{bgptest.Debian(w.t, "bookworm"), bgptest.Debian(w.t, "trixie")} {
		start(routerAS, "", debian.FRR, func(own string) string { return endingFRR(nodes, own, "") })
		start(routerAS, "bfd check-control-plane-failure", debian.FRR, func(own string) string {
			return endingFRR(nodes, own, " neighbor %s bfd check-control-plane-failure\n")
		})
		start(birdAS, "", debian.BIRD, func(own string) string { return endingBIRD(nodes, own, "on") })
		start(birdAS, "bfd graceful", debian.BIRD, func(own string) string { return endingBIRD(nodes, own, "graceful") })
	}
	for _, n := range nodes {
		n.orders = endingOrders(n.address(), peers, n.setting, routes(n.service().String()+"/32"))
	}
	return routers, peers
}

// staying starts the speaker of the node that always works.
func (w *world) staying(address netip.Addr, peers map[netip.Addr]uint32, nodes []*endingNode) {
	ns := bgptest.NewNamespace(w.t)
	w.wire.Join(ns, "eth0", address.String()+"/24")
	var services []string
	for _, n := range nodes {
		answers(ns, w.t, n.service())
		services = append(services, n.service().String()+"/32")
	}
	startSpeakerIn(w.t, ns, endingOrders(address, peers, setting{}, routes(services...)))
}

func endingOrders(own netip.Addr, peers map[netip.Addr]uint32, s setting, announced []peering.Route) orders {
	o := orders{Routes: announced}
	var all []peering.Peer
	for address, asn := range peers {
		p := inAS(peer(address.String()), asn)
		p.Families, p.NextHops = p.Families[:1], nil
		p.Timers = peering.Timers{Hold: holdTime, Keepalive: holdTime / 3, ConnectRetry: time.Second}
		if s.gracefulRestart {
			p.GracefulRestart = peering.GracefulRestart{Enabled: true, Restart: restartTime, Deferral: 2 * time.Second}
		}
		if s.bfd {
			o.BFD = append(o.BFD, address)
		}
		all = append(all, p)
	}
	o.State = state(all...)
	o.State.Global.RouterID = own
	return o
}

// endingFRR returns the configuration of FRR with the nodes as neighbors. It adds the line more
// for each neighbor with BFD.
func endingFRR(nodes []*endingNode, own, more string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
router bgp %d
 bgp router-id %s
 no bgp ebgp-requires-policy
 bgp graceful-restart preserve-fw-state
`, routerAS, own)
	neighbor := func(address string, bfd bool) {
		fmt.Fprintf(&b, " neighbor %[1]s remote-as %[2]d\n neighbor %[1]s timers %[3]d %[4]d\n neighbor %[1]s timers connect 1\n",
			address, ourAS, int(holdTime/3/time.Second), int(holdTime/time.Second))
		if !bfd {
			return
		}
		fmt.Fprintf(&b, " neighbor %s bfd %d %d %[3]d\n", address, bfdMultiplier, bfdInterval.Milliseconds(), bfdInterval.Milliseconds())
		if more != "" {
			fmt.Fprintf(&b, more, address)
		}
	}
	for _, n := range nodes {
		neighbor(n.address().String(), n.bfd)
	}
	neighbor("192.0.2.100", false)
	return b.String()
}

func endingBIRD(nodes []*endingNode, own, bfd string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
router id %s;
protocol bfd { interface "*" { interval %d ms; multiplier %d; }; }
`, own, bfdInterval.Milliseconds(), bfdMultiplier)
	neighbor := func(address, bfd string) {
		fmt.Fprintf(&b, `
protocol bgp {
 local %s as %d;
 neighbor %s as %d;
 hold time %d;
 connect retry time 1;
 connect delay time 1;
 error wait time 1, 2;
 bfd %s;
 graceful restart aware;
 ipv4 { import all; export none; };
}
`, own, birdAS, address, ourAS, int(holdTime/time.Second), bfd)
	}
	for _, n := range nodes {
		on := "off"
		if n.bfd {
			on = bfd
		}
		neighbor(n.address().String(), on)
	}
	neighbor("192.0.2.100", "off")
	return b.String()
}

// title returns the version of the router and its option.
func (r *endingRouter) title() string {
	question := "show status"
	if r.isFRR() {
		question = "show version"
	}
	title := routerVersion.FindString(r.Ask(question))
	if r.bfdOption != "" {
		title += fmt.Sprintf(" with `%s`", r.bfdOption)
	}
	return title
}

var routerVersion = regexp.MustCompile(`(FRRouting|BIRD) \d+\.\d+`)

func (r *endingRouter) isFRR() bool { return r.asn == routerAS }

// awaitBFD waits until the BFD sessions of the router are up.
func (r *endingRouter) awaitBFD(nodes []*endingNode) {
	want, question, up := 0, "show bfd sessions", " Up "
	if r.isFRR() {
		question, up = "show bfd peers", "Status: up"
	}
	for _, n := range nodes {
		if n.bfd {
			want++
		}
	}
	bgptest.Await(r.t, "the BFD sessions of "+r.title(), fmt.Sprint(want), func() string {
		return fmt.Sprint(strings.Count(r.Ask(question), up))
	})
}

// measured matches the numbers of a cell, which differ from one measurement to the next.
var measured = regexp.MustCompile(`: [^|]*`)

const tableBegins, tableEnds = "<!-- The table is written by TestRoutersReactToEachEnd with -update. -->\n", "<!-- The end of the table. -->\n"

// compareTable compares the measurement with the table in docs/bgp-tune.md: whether a node stayed in
// the routing table, and what removed it. It does not compare times.
func compareTable(t *testing.T, got string) {
	t.Helper()
	const file = "../../../docs/bgp-tune.md"
	text, err := os.ReadFile(file)
	expect.NoError(t, err)
	before, rest, begins := strings.Cut(string(text), tableBegins)
	want, after, finishes := strings.Cut(rest, tableEnds)
	if !begins || !finishes {
		t.Fatalf("%s has no place for the table:\n%s", file, got)
	}
	if *update {
		expect.NoError(t, os.WriteFile(file, []byte(before+tableBegins+got+tableEnds+after), 0o644))
		return
	}
	if measured.ReplaceAllString(got, " ") != measured.ReplaceAllString(want, " ") {
		t.Errorf("%s has the table\n%s\nbut the measurement is\n%s", file, want, got)
	}
}
