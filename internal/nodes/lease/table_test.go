package lease

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

// at returns the time so many seconds after the start.
func at(seconds float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// leaseOf returns a Lease of node that was renewed at this time. The clock of the node is wrong by a
// year.
func leaseOf(node string, renewed time.Time, subnets string) *coordinationv1.Lease {
	seconds := int32(10)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: Prefix + node, Annotations: map[string]string{AnnotationSubnets: subnets}},
		Spec: coordinationv1.LeaseSpec{
			LeaseDurationSeconds: &seconds,
			RenewTime:            &metav1.MicroTime{Time: renewed.AddDate(1, 0, 0)},
		},
	}
}

// fastTable returns the table of node-a, which polls. Its Lease counts for ten seconds.
func fastTable() *table {
	return newTable(Options{Node: "node-a", Duration: 10 * time.Second, RetryPeriod: 2 * time.Second})
}

// slowTable returns the table of node-a, which does not poll.
func slowTable() *table {
	t := fastTable()
	t.mode = Mode{}
	t.turn = 0.5 // no spread
	return t
}

// lost returns the Mode after gossip has lost these nodes at a time.
func lost(seconds float64, nodes ...string) Mode {
	m := Mode{Gossip: map[string]election.Gossiped{}}
	for _, node := range nodes {
		m.Gossip[node] = election.Gossiped{State: election.Dead, Since: at(seconds)}
	}
	return m
}

// hears returns the Mode while gossip hears node, whose Lease has this digest.
func hears(node string, digest uint64) Mode {
	return Mode{Gossip: map[string]election.Gossiped{node: {Record: election.Record{Digest: digest}}}}
}

// slow returns a Lease of node that was renewed at this time and counts for three minutes.
func slow(node string, renewed float64) coordinationv1.Lease {
	o := leaseOf(node, at(renewed), "192.0.2.0/24")
	seconds := int32(180)
	o.Spec.LeaseDurationSeconds = &seconds
	return *o
}

// lists makes node-a renew its Lease just before now, and list it together with others.
func lists(t *table, now float64, others ...coordinationv1.Lease) {
	before := at(now).Add(-time.Millisecond)
	t.acknowledge(before)
	t.list(append(others, *leaseOf("node-a", before, "192.0.2.0/24")), at(now))
}

// peers returns the result of the election with only the evidence of t.
func (t *table) peers(now time.Time) election.Peers { return t.view(now).peers(t.self, now) }

func (v View) peers(self string, now time.Time) election.Peers {
	return election.Merge(election.Evidence{
		Self: self, Leases: v.Leases, LeasesTrusted: v.Trusted, Contact: v.Contact, Settled: v.Settled,
	}, now)
}

func showPeers(p election.Peers) string {
	var b strings.Builder
	for _, m := range p.Members {
		fmt.Fprintf(&b, "%s%v ", m.Node, m.Subnets)
	}
	fmt.Fprintf(&b, "known%v trusted=%v", p.Known, p.Trusted)
	return b.String()
}

// about returns the state of node-b in t at the time now.
func about(t *table, now float64) string {
	v := t.view(at(now))
	for _, l := range v.Leases {
		if l.Node == "node-b" {
			renewed := "never"
			if !l.Renewed.IsZero() {
				renewed = fmt.Sprint("after ", l.Renewed.Sub(at(0)))
			}
			return fmt.Sprintf("alive %t, renewed %s, trusted %t", l.Alive, renewed, v.Trusted)
		}
	}
	return fmt.Sprintf("gone, trusted %t", v.Trusted)
}

func says(t *testing.T, table *table, now float64, want string) {
	t.Helper()
	expect.Equal(t, fmt.Sprintf("at %g s: node-b", now), about(table, now), want)
}

// tell changes the API server or table. "3 b/7": the Lease of node-b is renewed in second 3 (the
// number is the time of renewal by the clock of node-b). "3 delete": it is deleted. "0-9 list": the
// agent lists in each of these seconds. "5 fail": a request fails.
func tell(t *testing.T, table *table, b *[]coordinationv1.Lease, step string) {
	t.Helper()
	when, what, _ := strings.Cut(step, " ")
	var first, last int
	if n, _ := fmt.Sscanf(when, "%d-%d", &first, &last); n == 1 {
		last = first
	}
	for second := first; second <= last; second++ {
		var version float64
		switch n, _ := fmt.Sscanf(what, "b/%f", &version); {
		case n == 1:
			*b = []coordinationv1.Lease{*leaseOf("node-b", at(version), "192.0.2.0/24")}
		case what == "delete":
			*b = nil
		case what == "list":
			lists(table, float64(second), *b...)
		case what == "fail":
			table.fail(at(float64(second)))
		default:
			t.Fatalf("cannot %s", what)
		}
	}
}

func TestAPolledLeaseCountsFromTheObservedChange(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []string
		now   float64
		want  string
	}{
		{"nothing was read", nil, 0, "gone, trusted false"},
		{"a Lease that existed at the start counts for one duration", []string{"0 b/1", "0-10 list"}, 10, "alive true, renewed never, trusted true"},
		{"and no longer", []string{"0 b/1", "0-11 list"}, 11, "alive false, renewed never, trusted true"},
		{"a renewal keeps it", []string{"0 b/1", "0-6 list", "7 b/2", "7-17 list"}, 17, "alive true, renewed after 6s, trusted true"},
		{"for one duration", []string{"0 b/1", "0-6 list", "7 b/2", "7-18 list"}, 18, "alive false, renewed after 6s, trusted true"},
		{"also a renewal with an earlier time, because the clock was set back", []string{"0 b/9999", "0-6 list", "7 b/2", "7-17 list"}, 17, "alive true, renewed after 6s, trusted true"},
		{"a renewal revives a silent Lease", []string{"0 b/1", "0-20 list", "21 b/2", "21 list"}, 21, "alive true, renewed after 20s, trusted true"},
		{"a deleted Lease counts for no node", []string{"0 b/1", "0-2 list", "3 delete", "3 list"}, 3, "gone, trusted true"},

		{"the last list counts for a while", []string{"0 b/1", "0-2 list"}, 7, "alive true, renewed never, trusted true"},
		{"not for long", []string{"0 b/1", "0-2 list"}, 7.1, "alive true, renewed never, trusted false"},
		{"no node dies without contact", []string{"0 b/1", "0-9 list", "12-99 fail"}, 99, "alive true, renewed never, trusted false"},
		{"a failure counts at once", []string{"0 b/1", "0-5 list", "6 fail"}, 6, "alive true, renewed never, trusted false"},
		{"after an outage, every node gets a full duration", []string{"0 b/1", "0-9 list", "12-99 fail", "100-110 list"}, 110, "alive true, renewed never, trusted true"},
		{"and no more", []string{"0 b/1", "0-9 list", "12-99 fail", "100-111 list"}, 111, "alive false, renewed never, trusted true"},
		{"also after a hanging request, which is no failure yet", []string{"0 b/1", "0-9 list", "100-110 list"}, 110, "alive true, renewed never, trusted true"},
		{"also after one failure", []string{"0 b/1", "0-8 list", "9 fail", "10-20 list"}, 20, "alive true, renewed never, trusted true"},
		{"a silent Lease stays silent", []string{"0 b/1", "0-11 list", "12-99 fail", "100 list"}, 100, "alive false, renewed never, trusted true"},
		{"a renewal in an outage counts from its observation", []string{"0 b/1", "0-5 list", "6-17 fail", "8 b/2", "18-28 list"}, 28, "alive true, renewed after 5s, trusted true"},
	} {
		table := fastTable()
		var b []coordinationv1.Lease
		for _, step := range tt.steps {
			tell(t, table, &b, step)
		}
		expect.Equal(t, tt.name, about(table, tt.now), tt.want)
	}
}

// This holds for any outages and any clocks: a live node is never missing. A dead node is missing
// after one duration of contact without a renewal. Without contact, no node disappears.
func TestLivingStayAndDeadGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		server, reach := spells(t, "outages"), spells(t, "cuts")
		phase, skew := rapid.IntRange(0, 2).Draw(t, "phase"), rapid.IntRange(-10_000, 10_000).Draw(t, "skew")
		died := rapid.IntRange(-100, 400).Draw(t, "died")
		table := fastTable()
		var b []coordinationv1.Lease
		renewed, unbroken, before := phase-3, 0, "" // unbroken is the length of the present contact
		for second := range 200 {
			now := float64(second)
			if server(second) && second < died && second-renewed >= 3 {
				renewed, b = second, []coordinationv1.Lease{*leaseOf("node-b", at(float64(second+skew)), "192.0.2.0/24")}
			}
			if unbroken++; server(second) && reach(second) {
				lists(table, now, b...)
			} else {
				unbroken = 0
			}
			v := table.view(at(now))
			there := slices.ContainsFunc(v.Leases, func(l election.Leased) bool { return l.Node == "node-b" && l.Alive })
			known := slices.ContainsFunc(v.Leases, func(l election.Leased) bool { return l.Node == "node-b" })
			switch {
			case second < died && known && !there:
				t.Fatalf("second %d: the node is alive, but missing", second)
			case second-12 >= died && unbroken > 12 && there:
				t.Fatalf("second %d: the node is dead, but not missing", second)
			case !v.Trusted && fmt.Sprint(there, known) != before && before != "":
				t.Fatalf("second %d: a change without contact", second)
			case unbroken > 0 && !v.Trusted:
				t.Fatalf("second %d: in contact, but not trusted", second)
			}
			before = fmt.Sprint(there, known)
		}
	})
}

// spells draws the intervals, in seconds, in which something is away.
func spells(t *rapid.T, what string) func(second int) bool {
	type spell struct{ from, to int }
	var all []spell
	for range rapid.IntRange(0, 3).Draw(t, what) {
		from := rapid.IntRange(1, 120).Draw(t, "from")
		all = append(all, spell{from, from + rapid.IntRange(0, 40).Draw(t, "for")})
	}
	return func(second int) bool {
		return !slices.ContainsFunc(all, func(s spell) bool { return s.from <= second && second < s.to })
	}
}

func TestNoTrustWhileRenewalsFail(t *testing.T) {
	table := fastTable()
	table.list([]coordinationv1.Lease{*leaseOf("node-b", at(0), "")}, at(0))
	says(t, table, 0, "alive true, renewed never, trusted false")
	lists(table, 1)
	says(t, table, 1, "gone, trusted true")
	for s := 2.0; s <= 11; s++ {
		table.list(nil, at(s))
	}
	says(t, table, 11, "gone, trusted false")
}

func TestAListAfterOurLeaseSettles(t *testing.T) {
	for _, wait := range []time.Duration{0, 2 * time.Second} { // 2 s if our Lease is new
		table := slowTable()
		table.settling = wait
		table.list(nil, at(0))
		if table.unlisted() {
			t.Error("a list is due before the own Lease is written")
		}
		table.acknowledge(at(1))
		if !table.unlisted() || table.view(at(1)).Contact != at(1) {
			t.Error("no list is due, or the renewal is no proof of contact")
		}
		table.list([]coordinationv1.Lease{slow("node-a", 1)}, at(2))
		settles := at(2).Add(wait)
		if v := table.view(settles); !v.Settled || v.Trusted {
			t.Errorf("the view is settled %t and trusted %t", v.Settled, v.Trusted)
		}
		if table.view(settles.Add(-time.Millisecond)).Settled && wait > 0 {
			t.Error("the view is settled before nodes that started together could see each other")
		}
	}
}

func TestAnUnknownNodeWithRegainedNetworksWaitsForItsLease(t *testing.T) {
	table := slowTable()
	table.unsettle(at(1))
	table.acknowledge(at(0.9)) // it was sent without the networks
	table.list([]coordinationv1.Lease{slow("node-a", 0)}, at(1))
	if table.view(at(60)).Settled {
		t.Error("the view is settled by a renewal without the networks")
	}
	table.acknowledge(at(60))
	table.list([]coordinationv1.Lease{slow("node-a", 60)}, at(60.1))
	if table.view(at(62)).Settled || !table.view(at(62.1)).Settled {
		t.Error("the view is settled before the other nodes had time to publish their networks")
	}
}

func TestAnEditByAnotherClientIsNoRenewal(t *testing.T) {
	table := fastTable()
	o := *leaseOf("node-b", at(0), "192.0.2.0/24")
	for s := 0.0; s <= 11; s++ {
		o.ResourceVersion, o.Annotations["example.com/note"] = fmt.Sprint(s), fmt.Sprint(s)
		lists(table, s, o)
	}
	says(t, table, 11, "alive false, renewed never, trusted true")
}

func TestALeaseThatIsNotPolledCountsUntilItIsFoundSilent(t *testing.T) {
	table := slowTable()
	list := func(renewed, now float64) { table.list([]coordinationv1.Lease{slow("node-b", renewed)}, at(now)) }
	list(0, 0)
	list(0, 300)
	says(t, table, 300, "alive true, renewed never, trusted false")

	table.change(lost(310, "node-b"), at(310))
	list(0, 320)
	says(t, table, 320, "alive true, renewed never, trusted false") // the Lease of a lost node has the duration of a fast Lease
	list(0, 321)
	says(t, table, 321, "alive false, renewed never, trusted false")

	list(330, 331)
	says(t, table, 331, "alive true, renewed after 5m21s, trusted false") // not before the last observation
	table.list(nil, at(400))
	says(t, table, 400, "gone, trusted false")
}

// Gossip loses a node, hears it again and loses it again, before the next list of all Leases.
func TestTheLeaseOfANodeThatIsLostAgainIsReadAgain(t *testing.T) {
	table := slowTable()
	b := slow("node-b", 0)
	table.list([]coordinationv1.Lease{b}, at(0))
	table.change(lost(10, "node-b"), at(10))
	table.observe(&b, at(21))
	says(t, table, 21, "alive false, renewed never, trusted false")
	table.change(hears("node-b", 0), at(30))
	says(t, table, 30, "alive true, renewed never, trusted false")
	table.change(lost(40, "node-b"), at(40))
	reads(t, table, 45.1, "node-b")
}

func TestUnprovenLeaseCountsForItsDuration(t *testing.T) {
	table := slowTable()
	list := func(renewed, now float64) { table.list([]coordinationv1.Lease{slow("node-b", renewed)}, at(now)) }
	list(0, 0)
	table.change(Mode{Unproven: map[string]bool{"node-b": true}}, at(0))
	reads(t, table, 0, "nothing for 3m5.03s") // until 5.03 s after the Lease expired
	list(0, 180)
	says(t, table, 180, "alive true, renewed never, trusted false")
	list(0, 185)
	says(t, table, 185, "alive false, renewed never, trusted false")
	table.plan(at(186))
	reads(t, table, 186, "nothing for 4m59s")
	list(200, 201)
	says(t, table, 201, "alive true, renewed after 3m5s, trusted false")
}

// When gossip loses a node, polling begins. The lists before that are minutes apart.
func TestPollingCountsLeasesOfLostNodesAsFast(t *testing.T) {
	for _, tt := range []struct {
		name    string
		nodes   int
		lost    bool
		renewed []float64 // by node-b, which is lost at -1
		until   float64   // alive so long, and no longer
	}{
		{"lost and silent", 2, true, []float64{-60}, 10},
		{"renewed between the last list and the loss", 2, true, []float64{-60, -5}, 10},
		{"lost, and renews once", 2, true, []float64{-60, 3}, 13},
		{"never gossiped", 2, false, []float64{-60}, 180},
		{"in a large cluster, where nodes read each other's Leases rarely", 100, true, []float64{-60}, 13},
	} {
		table := slowTable()
		var all []coordinationv1.Lease
		for i := range tt.nodes - 2 {
			all = append(all, slow(fmt.Sprint("node-", i), 0))
		}
		table.list(append(all, slow("node-b", -60)), at(-50))
		var m Mode
		if tt.lost {
			m = lost(-1, "node-b")
		}
		m.Poll = true
		table.change(m, at(0))
		last := 0.0
		for s := 0.0; s < 200; s++ {
			renewed := tt.renewed[0]
			for _, r := range tt.renewed {
				if r <= s {
					renewed = r
				}
			}
			lists(table, s, append(all, slow("node-b", renewed))...)
			if strings.HasPrefix(about(table, s), "alive true") {
				last = s
			}
		}
		expect.Equal(t, tt.name+": the last second of life", last, tt.until)
	}
}

func TestAddressesAndMACsAreKnownUntilTheLeaseIsDeleted(t *testing.T) {
	table := fastTable()
	b, c := leaseOf("node-b", at(0), "192.0.2.0/24"), leaseOf("node-c", at(0), "192.0.2.0/24")
	b.Annotations[AnnotationAddresses] = "192.0.2.2, 2001:db8::2,nonsense,::ffff:172.17.0.1"
	b.Annotations[AnnotationMACs] = "02:00:00:00:00:0b,nonsense"
	c.Annotations[AnnotationAddresses] = "172.17.0.1"
	table.list([]coordinationv1.Lease{*b, *c}, at(0))
	expect.Equal(t, "the MACs of the dead node", fmt.Sprint(table.peers(at(100)).MACs), "map[[2 0 0 0 0 11]:node-b]")
	const all = "map[172.17.0.1:node-b 192.0.2.2:node-b 2001:db8::2:node-b]"
	expect.Equal(t, "addresses of the dead node", fmt.Sprint(table.peers(at(100)).Own), all)
	table.drop("node-b")
	expect.Equal(t, "the MACs without node-b's Lease", len(table.peers(at(100)).MACs), 0)
	expect.Equal(t, "addresses without node-b's Lease", fmt.Sprint(table.peers(at(100)).Own), "map[172.17.0.1:node-c]")
}

func TestReadableSubnetsAreKept(t *testing.T) {
	subnets := func(text string) string { return fmt.Sprint(list(text, maxSubnets, parseSubnet)) }
	for _, tt := range []struct{ text, want string }{
		{"", "[]"},
		{"192.0.2.0/24,2001:db8::/64", "[192.0.2.0/24 2001:db8::/64]"},
		{"192.0.2.7/24, 2001:db8::7/64", "[192.0.2.0/24 2001:db8::/64]"},
		{"nonsense,192.0.2.0/24,,10.0.0.0/99", "[192.0.2.0/24]"},
		{strings.Repeat("192.0.2.0/24,", 1000), subnets(strings.Repeat("192.0.2.0/24,", maxSubnets))},
	} {
		expect.Equal(t, fmt.Sprintf("the subnets of %.40q", tt.text), subnets(tt.text), tt.want)
	}
}

func TestDurationsMustFitTogether(t *testing.T) {
	good := Options{Duration: 10 * time.Second, RenewDeadline: 7 * time.Second, RetryPeriod: 2 * time.Second}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Options){
		func(o *Options) { o.Duration = time.Millisecond },
		func(o *Options) { o.RenewDeadline = o.Duration },
		func(o *Options) { o.RetryPeriod = o.RenewDeadline },
		func(o *Options) { o.RetryPeriod = 0 },
	} {
		bad := good
		change(&bad)
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
