package announce_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/nodes/election"
)

const v4, v6 = "10.0.0.5", "fd00::50"

// taking is a node-a that should have v4 and v6 on eth0, and has neither.
type taking struct {
	t    *testing.T
	does announce.Addresses
	used bool // the addresses were announced by some node before
	node announce.Node
	gone []string // addresses that are no longer wanted
	told strings.Builder
}

func (w *taking) plan() (p announce.Plan) {
	for _, a := range []announce.Address{{Prefix: netip.MustParsePrefix(v4 + "/24")}, {Prefix: netip.MustParsePrefix(v6 + "/64")}} {
		a.Link = "eth0"
		if ip := a.Prefix.Addr(); !slices.Contains(w.gone, ip.String()) {
			p.Decisions = append(p.Decisions, announce.Decision{IP: ip, Where: announce.Local, Address: a, Used: w.used})
			p.Wanted = append(p.Wanted, a)
		}
	}
	return p
}

// do carries out a step such as "200 answered fd00::50": 200 ms after the start, a probe of
// fd00::50 was answered. After "pass" it records the result.
func (w *taking) do(step string) {
	words := strings.Fields(step)
	ms, now := clock(w.t, words[0])
	var ips []netip.Addr
	for _, word := range words[2:] {
		if ip, err := netip.ParseAddr(word); err == nil {
			ips = append(ips, ip)
		}
	}
	switch words[1] {
	case "pass":
		w.pass(ms, now)
	case "silent":
		w.does.Probed(now, "eth0", ips, nil)
	case "answered":
		w.does.Probed(now, "eth0", ips, each(mac(0xb), words[2:]...))
	case "unprobed":
		w.does.Unprobed(now, "eth0", ips)
	case "offered":
		w.does.Offered(now, words[2], ips)
	case "has":
		for _, ip := range ips {
			w.node.Addresses = append(w.node.Addresses, hasLocal("eth0", map[string]string{v4: v4 + "/24", v6: v6 + "/64"}[ip.String()], lifetime))
		}
	case "release":
		w.gone = words[2:]
	case "want":
		w.gone = nil
	default:
		w.t.Fatal(step)
	}
}

// clock reads how many milliseconds after begin a step is.
func clock(t *testing.T, text string) (ms int, now time.Time) {
	ms, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return ms, begin.Add(time.Duration(ms) * time.Millisecond)
}

// beside returns the situation of a node with other nodes.
func beside(node announce.Node) announce.Situation {
	return announce.Situation{Self: "node-a", Node: node, Peers: election.Peers{Members: []election.Member{member("node-b"), member("node-c")}}}
}

func (w *taking) pass(ms int, now time.Time) {
	p := w.plan()
	missing := slices.DeleteFunc(slices.Clone(p.Wanted), func(a announce.Address) bool {
		return slices.ContainsFunc(w.node.Addresses, func(f announce.Address) bool {
			return f.Link == a.Link && f.Prefix.Addr() == a.Prefix.Addr() && f.Prefix.Bits() == a.Prefix.Bits()
		})
	})
	s := w.does.Come(now, beside(w.node), p, missing, nil)
	var said []string
	for _, a := range s.Add {
		said = append(said, "add "+showAddress(announce.Address{Prefix: a.Prefix, Link: a.Link, Valid: announce.Forever, NoDAD: a.NoDAD}))
	}
	for _, a := range s.Probe {
		said = append(said, "probe "+a.Prefix.Addr().String())
	}
	for _, c := range s.Contests {
		said = append(said, fmt.Sprintf("%s is contested by %s since %d", c.Address.Prefix.Addr(), announce.MACText(c.MAC), c.Since.Sub(begin).Milliseconds()))
	}
	for _, node := range slices.Sorted(maps.Keys(s.Taken)) {
		said = append(said, fmt.Sprintf("answer %s %v", node, s.Taken[node]))
	}
	if !s.Next.IsZero() {
		said = append(said, fmt.Sprintf("next after %s", s.Next.Sub(now).Truncate(100*time.Millisecond)))
	}
	fmt.Fprintf(&w.told, "%d: %s\n", ms, strings.Join(said, "; "))
}

// takeovers are steps of a node that takes v4 and v6, and what it says at each pass.
type takeovers []struct {
	name  string
	used  bool
	steps []string
	want  string
}

// check checks all of them, after some first steps whose results do not matter.
func (all takeovers) check(t *testing.T, first ...string) {
	t.Helper()
	for _, tt := range all {
		t.Run(tt.name, func(t *testing.T) {
			w := &taking{t: t, used: tt.used, does: announce.Addresses{Self: "node-a", Limit: announce.HandoverLimit}}
			w.node.Links = theSituation().Node.Links
			for _, step := range first {
				w.do(step)
			}
			w.told.Reset()
			for _, step := range tt.steps {
				w.do(step)
			}
			equal(t, w.told.String(), tt.want)
		})
	}
}

func TestTakeovers(t *testing.T) {
	takeovers{
		{"the segment is asked first, and silence is consent", false, []string{"0 pass", "100 pass", "200 silent " + v4 + " " + v6, "200 pass"},
			"0: probe 10.0.0.5; probe fd00::50\n100: \n200: add 10.0.0.5/24 dev eth0; add fd00::50/64 dev eth0\n"},
		{"where another node had it the kernel does not ask again", true, []string{"0 pass", "200 silent " + v4 + " " + v6, "200 pass"},
			"0: probe 10.0.0.5; probe fd00::50\n200: add 10.0.0.5/24 dev eth0; add fd00::50/64 dev eth0 nodad\n"},
		{"what is answered is not taken, and asked for again", false,
			[]string{"0 pass", "200 answered " + v6, "200 silent " + v4, "200 pass", "500 pass", "700 silent " + v6, "700 pass"},
			"0: probe 10.0.0.5; probe fd00::50\n" +
				"200: add 10.0.0.5/24 dev eth0; fd00::50 is contested by 02:00:00:00:00:0b since 200; next after 200ms\n" +
				"500: add 10.0.0.5/24 dev eth0; probe fd00::50; fd00::50 is contested by 02:00:00:00:00:0b since 200\n" +
				"700: add 10.0.0.5/24 dev eth0; add fd00::50/64 dev eth0\n"},
		{"again and again, with longer pauses, and the beginning is remembered", false,
			[]string{"0 release " + v6, "0 pass", "1 answered " + v4, "400 pass", "401 answered " + v4, "401 pass", "1100 pass", "1101 answered " + v4, "1101 pass"},
			"0: probe 10.0.0.5\n" +
				"400: probe 10.0.0.5; 10.0.0.5 is contested by 02:00:00:00:00:0b since 1\n" +
				"401: 10.0.0.5 is contested by 02:00:00:00:00:0b since 1; next after 400ms\n" +
				"1100: probe 10.0.0.5; 10.0.0.5 is contested by 02:00:00:00:00:0b since 1\n" +
				"1101: 10.0.0.5 is contested by 02:00:00:00:00:0b since 1; next after 800ms\n"},
		{"what could not be probed is not taken", false, []string{"0 release " + v4, "0 pass", "100 unprobed " + v6, "100 pass", "500 pass"},
			"0: probe fd00::50\n100: next after 200ms\n500: probe fd00::50\n"},
		{"what the holder offers is taken while it answers", false, []string{"0 pass", "10 answered " + v4 + " " + v6, "20 offered node-b " + v4 + " " + v6, "20 pass"},
			"0: probe 10.0.0.5; probe fd00::50\n20: add 10.0.0.5/24 dev eth0; add fd00::50/64 dev eth0 nodad\n"},
		{"and when it is here the holder is told", false, []string{"0 offered node-b " + v4 + " " + v6, "0 pass", "10 has " + v6 + " " + v4, "10 pass", "20 pass"},
			"0: add 10.0.0.5/24 dev eth0; add fd00::50/64 dev eth0 nodad\n10: answer node-b [10.0.0.5 fd00::50]\n20: \n"},
		{"also when it was here already", false, []string{"0 has " + v6 + " " + v4, "0 offered node-b " + v6, "0 pass"},
			"0: answer node-b [fd00::50]\n"},
		{"all nodes that offer it get an answer", false, []string{"0 release " + v6, "0 offered node-c " + v4, "10 offered node-b " + v4, "20 has " + v4, "20 pass", "30 pass"},
			"20: answer node-b [10.0.0.5]; answer node-c [10.0.0.5]\n30: \n"},
		{"an old offer does not count with a new one", false, []string{"0 release " + v6, "0 offered node-c " + v4, "2000 offered node-b " + v4, "2010 has " + v4, "2010 pass"},
			"2010: answer node-b [10.0.0.5]\n"},
		{"an offer that comes before its time is taken when it is", false, []string{"0 release " + v4 + " " + v6, "0 offered node-b " + v4, "0 pass", "500 want", "500 pass"},
			"0: \n500: add 10.0.0.5/24 dev eth0; probe fd00::50\n"},
		{"what is here is not asked for", false, []string{"0 has 10.0.0.5", "0 pass"}, "0: probe fd00::50\n"},
		{"what is not wanted any more is forgotten", false,
			[]string{"0 release " + v6, "0 pass", "100 release " + v4 + " " + v6, "100 pass", "150 silent " + v4, "200 want", "200 pass"},
			"0: probe 10.0.0.5\n100: \n200: probe 10.0.0.5; probe fd00::50\n"},
	}.check(t)
}

// When a node without an agent loses its power, its addresses are taken soon after, whenever
// that happens and however many they are.
func TestStationIsWatched(t *testing.T) {
	const both, who6 = v4 + " " + v6, "fd00::50 is contested by 02:00:00:00:00:0b since 1"
	const who = "10.0.0.5 is contested by 02:00:00:00:00:0b since 1; " + who6
	takeovers{
		{"one address is asked for twice in a second", true, []string{"27000 pass", "27001 answered " + v4, "27001 pass", "27600 pass"},
			"27000: probe 10.0.0.5; " + who + "; next after 1.3s\n27001: " + who + "; next after 300ms\n" +
				"27600: probe 10.0.0.5; " + who + "; next after 700ms\n"},
		{"when that is silent all others are asked for at once", true, []string{"27000 pass", "27100 silent " + v4, "27100 pass", "27200 silent " + v6, "27200 pass"},
			"27000: probe 10.0.0.5; " + who + "; next after 1.3s\n27100: add 10.0.0.5/24 dev eth0; probe fd00::50; " + who6 + "\n" +
				"27200: add 10.0.0.5/24 dev eth0; add fd00::50/64 dev eth0 nodad\n"},
		{"when the station could not be asked, it is asked again as soon", true, []string{"27000 pass", "27100 unprobed " + v4, "27100 pass"},
			"27000: probe 10.0.0.5; " + who + "; next after 1.3s\n27100: " + who + "; next after 300ms\n"},
		{"a machine that has what no node had is asked seldom", false, []string{"27000 pass", "28500 pass"},
			"27000: " + who + "; next after 700ms\n28500: probe 10.0.0.5; probe fd00::50; " + who + "\n"},
	}.check(t, "0 pass", "1 answered "+both, "20000 pass", "20001 answered "+both, "22000 pass", "22001 answered "+both, "26000 pass", "26001 answered "+both) // with longer pauses each time
}

// Other machines do not hear of an address on the dummy interface or on a link that does not work.
func TestKnownAddressesMoveUnasked(t *testing.T) {
	for _, tt := range []struct {
		name  string
		given []twist
		want  string
	}{
		{"from a link that works", []twist{has(hasLocal("eth1", v4+"/16", lifetime))}, "add 10.0.0.5/24 dev eth0; probe fd00::50"},
		{"from the dummy interface", []twist{has(hasRemote("kube-lb0", v4+"/32"), hasRemote("kube-lb0", v6+"/128"))}, "probe 10.0.0.5; probe fd00::50"},
		{"from a link without carrier", []twist{dark("eth1"), has(hasLocal("eth1", v4+"/16", lifetime), hasLocal("eth1", v6+"/64", lifetime))}, "probe 10.0.0.5; probe fd00::50"},
		{"from a link that is down", []twist{down("eth1"), has(hasLocal("eth1", v4+"/16", lifetime), hasLocal("eth1", v6+"/64", lifetime))}, "probe 10.0.0.5; probe fd00::50"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &taking{t: t, node: situation(tt.given...).Node}
			w.do("0 pass")
			equal(t, w.told.String(), "0: "+tt.want+"\n")
		})
	}
	a := hasRemote("kube-lb0", "172.16.0.1/24")
	p := announce.Plan{Decisions: []announce.Decision{{IP: a.Prefix.Addr(), Where: announce.Remote, Address: a}}, Wanted: list(a)}
	if s := new(announce.Addresses).Come(begin, beside(announce.Node{}), p, p.Wanted, nil); len(s.Add) != 1 || len(s.Probe) != 0 {
		t.Errorf("a remote address: %+v", s)
	}
}

func TestAContestNamesTheOther(t *testing.T) {
	c := announce.Contest{Address: hasLocal("eth0", v4+"/24", lifetime), MAC: mac(0xb)}
	if got := c.Message(election.Peers{}); !strings.HasPrefix(got, "10.0.0.5 on eth0 is answered by another machine, 02:00:00:00:00:0b; ") {
		t.Error(got)
	}
	equal(t, c.Message(election.Peers{MACs: map[[6]byte]string{c.MAC: "node-b"}}), "10.0.0.5 on eth0 is answered by node node-b, 02:00:00:00:00:0b; it is not taken before that stops: "+
		"if node node-b goes on answering, end another load balancer there, or set net.ipv4.conf.all.arp_ignore to 1, or strictARP of kube-proxy")
}

// elected is a plan with v4 on link.
func elected(link string) announce.Plan {
	w := announce.Address{Prefix: netip.MustParsePrefix(v4 + "/24"), Link: link}
	return announce.Plan{Decisions: []announce.Decision{{IP: w.Prefix.Addr(), Where: announce.Local, Address: w}}, Wanted: []announce.Address{w}}
}

// come returns the steps of does if v4 is wanted on link.
func come(does *announce.Addresses, now time.Time, link string) *announce.Outcome {
	p := elected(link)
	return does.Come(now, beside(announce.Node{}), p, p.Wanted, nil)
}

// answered returns the pause after a probe of v4 that another machine answers.
func answered(does *announce.Addresses, now time.Time) time.Duration {
	come(does, now, "eth0")
	does.Probed(now, "eth0", addrs(v4), each(mac(2), v4))
	return come(does, now, "eth0").Next.Sub(now)
}

// Two nodes that both count an address as theirs, and probe for it at the same moment, must
// not repeat that for ever.
func TestProbingNodesDoNotStayInStep(t *testing.T) {
	one, other := answered(&announce.Addresses{Self: "node-a"}, begin), answered(&announce.Addresses{Self: "node-b"}, begin)
	if one == other || min(one, other) < 200*time.Millisecond || max(one, other) >= 300*time.Millisecond {
		t.Errorf("the nodes pause for %s and %s", one, other)
	}
}

// For any sequence of messages: an address is added only while proven silence or an offer of
// its holder is valid.
func TestNothingIsTakenWithoutConsent(t *testing.T) {
	ip := netip.MustParseAddr(v4)
	rapid.Check(t, func(t *rapid.T) {
		does, now, asked := announce.Addresses{Self: "node-a", Limit: announce.HandoverLimit}, begin, false
		var consent time.Time // until when
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond)
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				if asked {
					consent = now.Add(3 * time.Second)
				}
				does.Probed(now, "eth0", []netip.Addr{ip}, nil)
				asked = false
			case 1:
				does.Probed(now, "eth0", []netip.Addr{ip}, each(mac(2), v4))
				asked = false
			case 2:
				does.Offered(now, "node-b", []netip.Addr{ip})
				if until := now.Add(2 * announce.HandoverLimit); until.After(consent) {
					consent = until
				}
			default:
				s := come(&does, now, "eth0")
				if len(s.Add) > 0 && !now.Before(consent) {
					t.Fatalf("taken without consent: %+v", s)
				}
				if len(s.Add) == 0 && now.Before(consent) {
					t.Fatalf("not taken: %+v", s)
				}
				if len(s.Add)+len(s.Probe) == 0 && !asked && s.Next.IsZero() {
					t.Fatalf("given up: %+v", s)
				}
				asked = asked || len(s.Probe) > 0
			}
		}
	})
}

// An address may be wanted on another link while a probe runs, or before its result is used.
func TestSilenceCountsOnOneLink(t *testing.T) {
	for name, silentAfter := range map[string]int{"before the change": 10, "after the change": 30} {
		t.Run(name, func(t *testing.T) {
			does := announce.Addresses{Self: "node-a", Limit: announce.HandoverLimit}
			after := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
			silent := func() { does.Probed(after(silentAfter), "eth0", addrs(v4), nil) }
			come(&does, after(0), "eth0")
			if silentAfter < 20 {
				silent()
			}
			if s := come(&does, after(20), "eth1"); len(s.Probe) != 1 || s.Probe[0].Link != "eth1" || len(s.Add) > 0 {
				t.Errorf("the steps after the change are %+v, want a probe on eth1", s)
			}
			if silentAfter > 20 {
				silent()
			}
			if s := come(&does, after(40), "eth1"); len(s.Add) > 0 {
				t.Errorf("the address is added on eth1, where no probe has ended")
			}
			does.Probed(after(50), "eth1", addrs(v4), nil)
			if s := come(&does, after(60), "eth1"); len(s.Add) != 1 {
				t.Errorf("the steps after the probe on eth1 are %+v, want the address added", s)
			}
		})
	}
}
