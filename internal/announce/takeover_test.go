package announce

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/election"
)

const v4, v6 = "10.0.0.5", "fd00::50"

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// taking is a node-a that should have v4 and v6 on eth0, and has neither.
type taking struct {
	t    *testing.T
	does Takeovers
	used bool // the addresses were announced by some node before
	node Node
	gone []string // addresses that are no longer wanted
	told strings.Builder
}

func (w *taking) plan() (p Plan) {
	for _, a := range []Address{{Prefix: netip.MustParsePrefix(v4 + "/24")}, {Prefix: netip.MustParsePrefix(v6 + "/64")}} {
		a.Link = "eth0"
		if ip := a.Prefix.Addr(); !slices.Contains(w.gone, ip.String()) {
			p.Decisions = append(p.Decisions, Decision{IP: ip, Where: Local, Address: a, Used: w.used})
			p.Wanted = append(p.Wanted, a)
		}
	}
	return p
}

// do carries out a step such as "200 answered fd00::50": 200 ms after the start, a probe of
// fd00::50 was answered. After "pass" it records the result.
func (w *taking) do(step string) {
	words := strings.Fields(step)
	var ms int
	if _, err := fmt.Sscan(words[0], &ms); err != nil {
		w.t.Fatal(step, err)
	}
	now := begin.Add(time.Duration(ms) * time.Millisecond)
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
		answers := map[netip.Addr][6]byte{}
		for _, ip := range ips {
			answers[ip] = [6]byte{2, 0, 0, 0, 0, 0xb}
		}
		w.does.Probed(now, "eth0", ips, answers)
	case "unprobed":
		w.does.Unprobed(now, "eth0", ips)
	case "offered":
		w.does.Offered(now, words[2], ips)
	case "has":
		for _, ip := range ips {
			w.node.Addresses = append(w.node.Addresses, hasLocal("eth0", map[string]string{v4: v4 + "/24", v6: v6 + "/64"}[ip.String()], lifetime))
		}
	case "remote":
		for _, ip := range ips {
			w.node.Addresses = append(w.node.Addresses, hasRemote("kube-lb0", netip.PrefixFrom(ip, ip.BitLen()).String()))
		}
	case "release":
		w.gone = words[2:]
	case "want":
		w.gone = nil
	default:
		w.t.Fatal(step)
	}
}

func (w *taking) pass(ms int, now time.Time) {
	p := w.plan()
	missing := slices.DeleteFunc(slices.Clone(p.Wanted), func(a Address) bool {
		return slices.ContainsFunc(w.node.Addresses, func(f Address) bool {
			return f.Link == a.Link && f.Prefix.Addr() == a.Prefix.Addr() && f.Prefix.Bits() == a.Prefix.Bits()
		})
	})
	s := w.does.Sift(now, p, missing, w.node)
	var said []string
	for _, a := range s.Add {
		said = append(said, "add "+showAddress(Address{Prefix: a.Prefix, Link: a.Link, Valid: Forever, NoDAD: a.NoDAD}))
	}
	for _, a := range s.Probe {
		said = append(said, "probe "+a.Prefix.Addr().String())
	}
	for _, c := range s.Contested {
		said = append(said, fmt.Sprintf("%s is contested by %s since %d", c.Address.Prefix.Addr(), MACText(c.MAC), c.Since.Sub(begin).Milliseconds()))
	}
	for _, node := range slices.Sorted(maps.Keys(s.Answer)) {
		said = append(said, fmt.Sprintf("answer %s %v", node, s.Answer[node]))
	}
	if !s.Next.IsZero() {
		said = append(said, fmt.Sprintf("next after %s", s.Next.Sub(now).Truncate(100*time.Millisecond)))
	}
	fmt.Fprintf(&w.told, "%d: %s\n", ms, strings.Join(said, "; "))
}

func TestTakeovers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		used  bool
		steps []string
		want  string
	}{
		{"the segment is asked first, and silence is consent", false,
			[]string{"0 pass", "100 pass", "200 silent " + v4 + " " + v6, "200 pass"},
			"0: probe 10.0.0.5; probe fd00::50\n100: \n200: add 10.0.0.5/24 dev eth0; add fd00::50/64 dev eth0\n"},
		{"where another node had it the kernel does not ask again", true,
			[]string{"0 pass", "200 silent " + v4 + " " + v6, "200 pass"},
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
		{"silence does not count for ever", false,
			[]string{"0 release " + v6, "0 pass", "100 silent " + v4, "3099 pass", "3100 pass"},
			"0: probe 10.0.0.5\n3099: add 10.0.0.5/24 dev eth0\n3100: probe 10.0.0.5\n"},
		{"what could not be probed is not taken", false,
			[]string{"0 release " + v4, "0 pass", "100 unprobed " + v6, "100 pass", "500 pass"},
			"0: probe fd00::50\n100: next after 200ms\n500: probe fd00::50\n"},
		{"what the holder offers is taken while it answers", false,
			[]string{"0 pass", "10 answered " + v4 + " " + v6, "20 offered node-b " + v4 + " " + v6, "20 pass"},
			"0: probe 10.0.0.5; probe fd00::50\n20: add 10.0.0.5/24 dev eth0; add fd00::50/64 dev eth0 nodad\n"},
		{"and when it is here the holder is told", false,
			[]string{"0 offered node-b " + v4 + " " + v6, "0 pass", "10 has " + v6 + " " + v4, "10 pass", "20 pass"},
			"0: add 10.0.0.5/24 dev eth0; add fd00::50/64 dev eth0 nodad\n10: answer node-b [10.0.0.5 fd00::50]\n20: \n"},
		{"also when it was here already", false,
			[]string{"0 has " + v6 + " " + v4, "0 offered node-b " + v6, "0 pass"},
			"0: answer node-b [fd00::50]\n"},
		{"all nodes that offer it get an answer", false,
			[]string{"0 release " + v6, "0 offered node-c " + v4, "10 offered node-b " + v4, "20 has " + v4, "20 pass", "30 pass"},
			"20: answer node-b [10.0.0.5]; answer node-c [10.0.0.5]\n30: \n"},
		{"an old offer does not count with a new one", false,
			[]string{"0 release " + v6, "0 offered node-c " + v4, "2000 offered node-b " + v4, "2010 has " + v4, "2010 pass"},
			"2010: answer node-b [10.0.0.5]\n"},
		{"an offer that comes before its time is taken when it is", false,
			[]string{"0 release " + v4 + " " + v6, "0 offered node-b " + v4, "0 pass", "500 want", "500 pass"},
			"0: \n500: add 10.0.0.5/24 dev eth0; probe fd00::50\n"},
		{"an old one counts no more", false,
			[]string{"0 release " + v6, "0 offered node-b " + v4, "2000 pass"},
			"2000: probe 10.0.0.5\n"},
		{"what is here is not asked for", false,
			[]string{"0 has 10.0.0.5", "0 pass"}, "0: probe fd00::50\n"},
		{"on the dummy interface it is", false,
			[]string{"0 remote " + v4 + " " + v6, "0 pass"}, "0: probe 10.0.0.5; probe fd00::50\n"},
		{"what is not wanted any more is forgotten", false,
			[]string{"0 release " + v6, "0 pass", "100 release " + v4 + " " + v6, "100 pass", "150 silent " + v4, "200 want", "200 pass"},
			"0: probe 10.0.0.5\n100: \n200: probe 10.0.0.5; probe fd00::50\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &taking{t: t, used: tt.used, does: Takeovers{Self: "node-a", Limit: HandoverLimit}}
			w.node.Links = theSituation().Node.Links
			for _, step := range tt.steps {
				w.do(step)
			}
			if diff := cmp.Diff(tt.want, w.told.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// When a node without an agent loses its power, its addresses are taken soon after, whenever
// that happens and however many they are.
func TestAStationIsWatchedByOneOfItsAddresses(t *testing.T) {
	const who = "is contested by 02:00:00:00:00:0b since 1"
	for _, tt := range []struct {
		name  string
		used  bool
		steps []string
		want  string
	}{
		{"one address is asked for twice in a second", true,
			[]string{"27000 pass", "27001 answered " + v4, "27001 pass", "27600 pass"},
			"27000: probe 10.0.0.5; 10.0.0.5 WHO; fd00::50 WHO; next after 1.3s\n27001: 10.0.0.5 WHO; fd00::50 WHO; next after 300ms\n" +
				"27600: probe 10.0.0.5; 10.0.0.5 WHO; fd00::50 WHO; next after 700ms\n"},
		{"when that is silent all others are asked for at once", true,
			[]string{"27000 pass", "27100 silent " + v4, "27100 pass", "27200 silent " + v6, "27200 pass"},
			"27000: probe 10.0.0.5; 10.0.0.5 WHO; fd00::50 WHO; next after 1.3s\n27100: add 10.0.0.5/24 dev eth0; probe fd00::50; fd00::50 WHO\n" +
				"27200: add 10.0.0.5/24 dev eth0; add fd00::50/64 dev eth0 nodad\n"},
		{"when the station could not be asked, it is asked again as soon", true,
			[]string{"27000 pass", "27100 unprobed " + v4, "27100 pass"},
			"27000: probe 10.0.0.5; 10.0.0.5 WHO; fd00::50 WHO; next after 1.3s\n27100: 10.0.0.5 WHO; fd00::50 WHO; next after 300ms\n"},
		{"a machine that has what no node had is asked seldom", false,
			[]string{"27000 pass", "28500 pass"},
			"27000: 10.0.0.5 WHO; fd00::50 WHO; next after 700ms\n28500: probe 10.0.0.5; probe fd00::50; 10.0.0.5 WHO; fd00::50 WHO\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &taking{t: t, used: tt.used, does: Takeovers{Self: "node-a", Limit: HandoverLimit}}
			w.node.Links = theSituation().Node.Links
			for _, at := range []int{0, 20000, 22000, 26000} { // with longer pauses each time
				w.do(fmt.Sprintf("%d pass", at))
				w.do(fmt.Sprintf("%d answered %s %s", at+1, v4, v6))
			}
			w.told.Reset()
			for _, step := range tt.steps {
				w.do(step)
			}
			if diff := cmp.Diff(strings.ReplaceAll(tt.want, "WHO", who), w.told.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestAnAddressOfTheSegmentMovesFromLinkToLinkUnasked(t *testing.T) {
	w := &taking{t: t}
	w.node.Addresses = []Address{hasLocal("eth1", v4+"/16", lifetime), hasRemote("kube-lb0", v6+"/128")}
	w.node.Links = theSituation().Node.Links
	w.do("0 pass")
	if got, want := w.told.String(), "0: add 10.0.0.5/24 dev eth0; probe fd00::50\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWhatIsOnALinkWithoutCarrierIsAskedForBeforeItMoves(t *testing.T) {
	for name, change := range map[string]twist{"without carrier": dark("eth1"), "down": down("eth1")} {
		w, s := &taking{t: t}, theSituation()
		change(&s)
		w.node.Addresses = []Address{hasLocal("eth1", v4+"/16", lifetime), hasLocal("eth1", v6+"/64", lifetime)}
		w.node.Links = s.Node.Links
		w.do("0 pass")
		if got, want := w.told.String(), "0: probe 10.0.0.5; probe fd00::50\n"; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestRemoteAddressesAreNoMatterOfTheSegment(t *testing.T) {
	a := hasRemote("kube-lb0", "172.16.0.1/24")
	p := Plan{Decisions: []Decision{{IP: a.Prefix.Addr(), Where: Remote, Address: a}}, Wanted: []Address{a}}
	var does Takeovers
	if s := does.Sift(begin, p, p.Wanted, Node{}); len(s.Add) != 1 || len(s.Probe) != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestAContestNamesTheOther(t *testing.T) {
	c := Contest{Address: hasLocal("eth0", v4+"/24", lifetime), MAC: [6]byte{2, 0, 0, 0, 0, 0xb}}
	if got := c.Message(election.Peers{}); !strings.HasPrefix(got, "10.0.0.5 on eth0 is answered by another machine, 02:00:00:00:00:0b; ") {
		t.Error(got)
	}
	nodes := election.Peers{MACs: map[[6]byte]string{c.MAC: "node-b"}}
	if got, want := c.Message(nodes), "10.0.0.5 on eth0 is answered by node node-b, 02:00:00:00:00:0b; it is not taken before that stops: "+
		"if node node-b goes on answering, set net.ipv4.conf.all.arp_ignore to 1 there, or strictARP of kube-proxy"; got != want {
		t.Errorf("of a node of the cluster: got %q, want %q", got, want)
	}
	shared := election.Peers{SharedMACs: map[[6]byte][]string{c.MAC: {"node-b", "node-c"}}}
	if got, want := c.Message(shared), "10.0.0.5 on eth0 is answered by one of the nodes node-b, node-c, whose Leases all claim 02:00:00:00:00:0b; "+
		"it is not taken before that stops: give each node a MAC of its own, and look for the node that answers"; got != want {
		t.Errorf("of two nodes: got %q, want %q", got, want)
	}
}

// Two nodes that both count an address as theirs, and probe for it at the same moment, must
// not repeat that for ever.
func TestNodesThatHearEachOtherAskDoNotStayInStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9-]{2,12}`), 2, 2, rapid.ID[string]).Draw(t, "nodes")
		ip := anAddress.Draw(t, "ip")
		one, other := Takeovers{Self: names[0], Limit: HandoverLimit}, Takeovers{Self: names[1], Limit: HandoverLimit}
		if one.stagger(ip, pauseMax) == other.stagger(ip, pauseMax) {
			t.Skip("one in a thousand")
		}
		for _, node := range []Takeovers{one, other} {
			if d := node.stagger(ip, pauseMax); d < 0 || d >= pauseMax {
				t.Errorf("%s", d)
			}
		}
	})
}

// For any sequence of messages: an address is added only while proven silence or an offer of
// its holder is valid.
func TestNothingIsTakenWithoutConsent(t *testing.T) {
	ip := netip.MustParseAddr(v4)
	w := Address{Prefix: netip.PrefixFrom(ip, 24), Link: "eth0"}
	p := Plan{Decisions: []Decision{{IP: ip, Where: Local, Address: w}}, Wanted: []Address{w}}
	rapid.Check(t, func(t *rapid.T) {
		does, now, asked := Takeovers{Self: "node-a", Limit: HandoverLimit}, begin, false
		var consent time.Time // until when
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond)
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				if asked {
					consent = now.Add(silence)
				}
				does.Probed(now, "eth0", []netip.Addr{ip}, nil)
				asked = false
			case 1:
				does.Probed(now, "eth0", []netip.Addr{ip}, map[netip.Addr][6]byte{ip: {2}})
				asked = false
			case 2:
				does.Offered(now, "node-b", []netip.Addr{ip})
				if until := now.Add(2 * HandoverLimit); until.After(consent) {
					consent = until
				}
			default:
				s := does.Sift(now, p, p.Wanted, Node{})
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
func TestSilenceOnOneLinkProvesNothingOnAnother(t *testing.T) {
	ip := netip.MustParseAddr(v4)
	for name, silentAfter := range map[string]int{"before the change": 10, "after the change": 30} {
		t.Run(name, func(t *testing.T) {
			does := Takeovers{Self: "node-a", Limit: HandoverLimit}
			after := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
			sift := func(ms int, link string) Steps {
				w := Address{Prefix: netip.PrefixFrom(ip, 24), Link: link}
				return does.Sift(after(ms), Plan{Decisions: []Decision{{IP: ip, Where: Local, Address: w}}, Wanted: []Address{w}}, []Address{w}, Node{})
			}
			silent := func() { does.Probed(after(silentAfter), "eth0", []netip.Addr{ip}, nil) }
			sift(0, "eth0")
			if silentAfter < 20 {
				silent()
			}
			if s := sift(20, "eth1"); len(s.Probe) != 1 || s.Probe[0].Link != "eth1" || len(s.Add) > 0 {
				t.Errorf("the steps after the change are %+v, want a probe on eth1", s)
			}
			if silentAfter > 20 {
				silent()
			}
			if s := sift(40, "eth1"); len(s.Add) > 0 {
				t.Errorf("the address is added on eth1, where no probe has ended")
			}
			does.Probed(after(50), "eth1", []netip.Addr{ip}, nil)
			if s := sift(60, "eth1"); len(s.Add) != 1 {
				t.Errorf("the steps after the probe on eth1 are %+v, want the address added", s)
			}
		})
	}
}

// A holder that is cut off gives up after a while. Then no machine answers until the next
// probe.
func TestWhatIsAnsweredIsAskedForOftenAtFirst(t *testing.T) {
	ip := netip.MustParseAddr(v4)
	for _, tt := range []struct{ after, most time.Duration }{
		{0, 300 * time.Millisecond}, {5 * time.Second, 1200 * time.Millisecond},
		{soon - time.Second, 1200 * time.Millisecond}, {time.Minute, 6 * time.Second},
	} {
		var does Takeovers
		one := &takeover{}
		does.each = map[netip.Addr]*takeover{ip: one}
		now := begin
		var pause time.Duration
		for ; !now.After(begin.Add(tt.after)); now = one.retry {
			one.probing = true
			does.Probed(now, "", []netip.Addr{ip}, map[netip.Addr][6]byte{ip: {2}})
			pause = one.retry.Sub(now)
		}
		if pause > tt.most {
			t.Errorf("after %s: asked again after %s, want %s at most", tt.after, pause, tt.most)
		}
	}
}
