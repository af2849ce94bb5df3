package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

// reads compares the next read of table at the time now with want.
func reads(t *testing.T, table *table, now float64, want string) {
	t.Helper()
	expect.Equal(t, fmt.Sprintf("what the table reads at %g s", now), table.next(at(now)).String(), want)
}

func (s step) String() string {
	switch {
	case s.list:
		return "all"
	case s.node != "":
		return s.node
	}
	return fmt.Sprint("nothing for ", s.wait)
}

// listed returns the table of node-a after a list of so many nodes. None of them has the name
// node-b.
func listed(nodes int) *table {
	t := slowTable()
	all := []coordinationv1.Lease{slow("node-a", 0)}
	for i := range nodes - 1 {
		all = append(all, slow(fmt.Sprint("node-", i), 0))
	}
	t.list(all, at(0))
	return t
}

func TestDigestChangesWithWhatAgentsRead(t *testing.T) {
	seen := map[uint64]int{0: -1}
	for i, r := range []Record{
		{}, record("192.0.2.0/24"), record("192.0.2.0/25"), record("192.0.2.0/24", "198.51.100.0/24"),
		{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}, {MACs: []MAC{{2}}}, {Agent: "purelb/default"},
	} {
		if before, known := seen[r.Digest()]; known {
			t.Errorf("records %d and %d have the same digest", before, i)
		}
		seen[r.Digest()] = i
		expect.Equal(t, fmt.Sprintf("the digest of record %d in its Lease", i), read("node-a", written(r), time.Second).digest, r.Digest())
	}
	drains := record("192.0.2.0/24")
	drains.Draining, drains.Problem, drains.Claims = "cordoned", "none", []Claim{claim("192.0.2.9", 7)}
	expect.Equal(t, "the digest of a record with data that gossip carries or no agent reads", drains.Digest(), record("192.0.2.0/24").Digest())
}

// A network of node-b is gone, but its gossip record has no room for that. Without a watch, the
// next list of all Leases comes only after minutes.
func TestAChangedLeaseIsRead(t *testing.T) {
	client := api(t)
	other, _ := start(t, client, "node-b", 30*time.Second)
	other.Publish(record("192.0.2.0/24", "198.51.100.0/24"))
	await(t, other, "node-b is known", members("node-b"))
	l, _ := start(t, client, "node-a", 30*time.Second)
	l.SetMode(Mode{})
	l.Publish(record("192.0.2.0/24"))
	known := func(n int) func(election.Peers) bool {
		return func(p election.Peers) bool { return len(p.Known) == n }
	}
	await(t, l, "both networks", known(2))

	now := record("192.0.2.0/24")
	l.SetMode(Mode{Digests: map[string]Digest{"node-b": {Value: now.Digest()}}})
	other.Publish(now)
	await(t, l, "one network", known(1))

	// The agent of node-b leaves. Without its deletion, the Lease would remain until the next list.
	expect.NoError(t, other.Delete(t.Context()))
	l.SetMode(Mode{Left: map[string]bool{"node-b": true}})
	await(t, l, "node-a alone", func(p election.Peers) bool { return len(p.Members) == 1 })
}

func TestReasonsToReadALease(t *testing.T) {
	const other = 1
	same := digest("192.0.2.0/24", "", "", "", "")
	for _, tt := range []struct {
		name   string
		change func(*table)
		first  string // what table reads next at 100 s
		then   string // the read after that one failed
	}{
		{"without a change", func(*table) {}, "nothing for 3m20s", ""},
		{"gossip has the known digest", func(t *table) { t.digests = map[string]Digest{"node-0": {Value: same}} }, "nothing for 3m20s", ""},
		{"the content changed", func(t *table) { t.digests = map[string]Digest{"node-0": {Value: other}} }, "nothing for 1.02s", "nothing for 2s"},
		{"networks changed", func(t *table) { t.digests = map[string]Digest{"node-0": {Value: other, Urgent: true}} }, "nothing for 1.002s", "nothing for 2s"},
		{"a new node", func(t *table) { t.digests = map[string]Digest{"node-9": {Value: other}} }, "nothing for 1.02s", "nothing for 2s"},
		{"a new node of an earlier version", func(t *table) { t.digests = map[string]Digest{"node-9": {}} }, "nothing for 1.02s", "nothing for 2s"},
		{"the digest of this node", func(t *table) { t.digests = map[string]Digest{"node-a": {Value: other}} }, "nothing for 3m20s", ""},
		{"a lost node", func(t *table) { t.lost = map[string]time.Time{"node-0": at(100)} }, "nothing for 5.12s", "nothing for 5.12s"},
		{"a lost node without a Lease", func(t *table) { t.lost = map[string]time.Time{"node-9": at(100)} }, "nothing for 3m20s", ""},
		{"a node left", func(t *table) { t.left = map[string]bool{"node-0": true} }, "nothing for 1.02s", "nothing for 2s"},
		{"a node left, and its Lease is gone", func(t *table) { t.left = map[string]bool{"node-9": true} }, "nothing for 3m20s", ""},
		{"a Lease is unproven", func(t *table) { t.unproven = map[string]bool{"node-0": true} }, "nothing for 1m25.12s", "nothing for 5.12s"},
	} {
		table := listed(4)
		tt.change(table)
		expect.Equal(t, tt.name+": a read is planned", table.plan(at(100)), (tt.then != ""))
		if table.plan(at(101)) {
			t.Errorf("%s: the read is planned again", tt.name)
		}
		first := table.next(at(100))
		expect.Equal(t, tt.name+": what the table reads", first.String(), tt.first)
		if tt.then == "" {
			continue
		}
		now := at(100).Add(first.wait)
		if s := table.next(now); s.node == "" || s.list {
			t.Errorf("%s: the table reads %s when the Lease is due", tt.name, s)
		}
		table.postpone(now)
		expect.Equal(t, tt.name+": what the table reads after a failed read", table.next(now).String(), tt.then)
	}
}

func TestAnUnchangedLeaseIsReadAtGrowingIntervals(t *testing.T) {
	table := listed(4)
	table.digests = map[string]Digest{"node-0": {Value: 1}}
	table.plan(at(0))
	var pauses []time.Duration
	for now := at(0); len(pauses) < 12; table.listed = now {
		s := table.next(now)
		pauses = append(pauses, s.wait)
		now = now.Add(s.wait)
		table.postpone(now)
	}
	for i := range pauses[1:] {
		if want := min(2*pauses[i], resync); i > 0 && pauses[i+1] != want {
			t.Errorf("the pauses between the reads are %v, want growing ones", pauses)
		}
	}
}

// In a large cluster an agent may wait almost a minute before it reads a Lease. It still reads a
// Lease that changes more often, for example because a link goes up and down.
func TestFrequentlyChangingLeaseIsRead(t *testing.T) {
	table := listed(5000)
	for i := range 4 { // every 10 s, and the Lease is due 26 s after the first change
		now := float64(10 * i)
		table.digests = map[string]Digest{"node-0": {Value: uint64(i + 1)}}
		if !table.plan(at(now)) {
			t.Errorf("at %g: the change is not noticed", now)
		}
		if i < 3 {
			reads(t, table, now, fmt.Sprint("nothing for ", 26*time.Second-time.Duration(10*i)*time.Second))
		}
	}
	reads(t, table, 30, "node-0")
}

func TestManyDueLeasesAreListed(t *testing.T) {
	for _, tt := range []struct {
		lost int
		want string
	}{{few, "node-0"}, {few + 1, "all"}} {
		table := listed(100)
		table.lost = map[string]time.Time{}
		for i := range tt.lost {
			table.lost[fmt.Sprint("node-", i)] = at(100)
		}
		table.plan(at(100))
		reads(t, table, 100, "nothing for 8s")
		reads(t, table, 108, tt.want)
		table.listed = at(105) // soon after a list, waiting is cheaper than another list
		if tt.lost > few {
			reads(t, table, 108, "nothing for 5s")
		}
		reads(t, table, 113, tt.want)
	}
}

// In large clusters, the number of lists of all nodes together does not depend on the size.
func TestListsAreRareInLargeClusters(t *testing.T) {
	for _, tt := range []struct {
		nodes int
		want  time.Duration
	}{{1, 5 * time.Minute}, {400, 5 * time.Minute}, {1000, 12 * time.Minute}, {5000, time.Hour}, {20000, time.Hour}} {
		table := listed(tt.nodes)
		reads(t, table, 0, fmt.Sprint("nothing for ", tt.want))
		// The Leases of agents of an earlier version change without a new digest.
		for i := range few {
			table.digests = map[string]Digest{"node-a": {}, "node-0": {Value: 1}, "unknown": {}}
			for j := range i {
				table.digests[fmt.Sprint("node-", j+1)] = Digest{}
			}
			table.plan(at(0))
			if tt.nodes > 1 && table.resyncPause() != tt.want {
				t.Errorf("%d nodes, %d of them without a digest: a list every %v, want %v", tt.nodes, i, table.resyncPause(), tt.want)
			}
		}
	}
}

// An agent reads the Lease of an agent of an earlier version by its name, instead of listing all
// Leases.
func TestLeaseWithoutADigestIsReadByName(t *testing.T) {
	table := listed(1000)
	table.digests = map[string]Digest{"node-0": {}}
	if !table.plan(at(10)) || table.plan(at(11)) {
		t.Error("the Lease is not planned exactly once")
	}
	for now := 300.0; now < 720; now += 300 {
		reads(t, table, now-1, "nothing for 1s")
		reads(t, table, now, "node-0")
		table.postpone(at(now))
	}
	table.digests = map[string]Digest{"node-0": {Value: table.contents["node-0"].digest}}
	table.plan(at(610))
	reads(t, table, 610, "nothing for 1m50s") // the list after 12 minutes

	// With many such agents, lists cost less.
	table.digests = map[string]Digest{}
	for i := range few + 1 {
		table.digests[fmt.Sprint("node-", i)] = Digest{}
	}
	table.plan(at(610))
	reads(t, table, 299, "nothing for 1s")
	reads(t, table, 610, "all")
}

// A change of the configuration changes the Leases of all nodes at once. The agents must not all
// list the Leases at the same time.
func TestListsForManyChangedLeasesAreSpread(t *testing.T) {
	for _, nodes := range []int{100, 1000, 5000} {
		const agents, parts = 100, 10 // the agents are a sample of all, and the parts divide the time
		lists := map[int]int{}        // by part
		for i := range agents {
			table := listed(50)
			for n := 50; n < nodes; n++ {
				table.contents[fmt.Sprint("other-", n)] = content{}
			}
			table.turn = float64(i) / agents
			table.digests = map[string]Digest{}
			for n := range few + 1 {
				table.digests[fmt.Sprint("node-", n)] = Digest{Value: 1, Urgent: true}
			}
			begin := at(200)
			table.plan(begin)
			now, s := begin, table.next(begin)
			for ; !s.list && s.node == "" && now.Before(at(1000)); s = table.next(now) {
				now = now.Add(s.wait)
			}
			if !s.list {
				t.Fatalf("%d nodes: %v after the change the table reads %s", nodes, now.Sub(begin), s)
			}
			lists[int(now.Sub(begin)-writtenAfter)*parts/(int(listEach)*nodes)]++
		}
		for part, n := range lists {
			if n > 2*agents/parts {
				t.Errorf("%d nodes: %d of %d agents list in part %d of %d: %v", nodes, n, agents, part, parts, lists)
			}
		}
	}
}

// The agent keeps the pause after a failed request, even after a signal to look again or when a
// Lease is due.
func TestAFailedRequestIsNotRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &refusing{}
		l := New(Options{Client: client, Node: "node-a", Duration: 10 * time.Second, RenewDeadline: 7 * time.Second, RetryPeriod: 2 * time.Second, Log: slog.New(slog.DiscardHandler)})
		l.SetMode(Mode{Digests: map[string]Digest{"node-b": {Value: 1, Urgent: true}}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		done := make(chan struct{})
		go func() { defer close(done); l.read(ctx) }()
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			backoff.Poke(l.look)
		}
		<-done
		if client.requests > 60 { // each pause is at least 1 s
			t.Errorf("%d requests in a minute, want one in 2 s", client.requests)
		}
		if client.requests < 19 { // each pause is at most 3.1 s
			t.Errorf("%d requests in a minute: the agent gave up", client.requests)
		}
	})
}

// An overloaded server does not answer. In large clusters, the number of requests of all agents
// together does not depend on the size.
func TestPausesAfterFailedRequestsGrowWithTheCluster(t *testing.T) {
	for _, tt := range []struct {
		nodes             int
		shortest, longest time.Duration // limits of a pause after many failures
	}{{4, time.Second, 3200 * time.Millisecond}, {100, 2500 * time.Millisecond, 7500 * time.Millisecond}, {5000, 76 * time.Second, 228 * time.Second}} {
		table := listed(tt.nodes)
		pauses := map[time.Duration]bool{}
		for range 30 {
			table.fail(at(0))
			pauses[table.retry.Sub(at(0))] = true
			reads(t, table, 0, fmt.Sprint("nothing for ", table.retry.Sub(at(0))))
		}
		if last := table.retry.Sub(at(0)); last < tt.shortest || last > tt.longest {
			t.Errorf("%d nodes: the last pause is %v, want %v to %v", tt.nodes, last, tt.shortest, tt.longest)
		}
		if len(pauses) < 20 {
			t.Errorf("%d nodes: all agents have the same pauses, %v", tt.nodes, pauses)
		}
		table.pauses.Reset()
		table.fail(at(0))
		if first := table.retry.Sub(at(0)); first > 3*time.Second {
			t.Errorf("%d nodes: the first pause after an answer is %v", tt.nodes, first)
		}
	}
}

// refusing is an API server that refuses requests, and counts them.
type refusing struct {
	coordination.LeaseInterface
	requests int
}

var errRefused = errors.New("refused")

func (r *refusing) Get(context.Context, string, metav1.GetOptions) (*coordinationv1.Lease, error) {
	r.requests++
	return nil, errRefused
}

func (r *refusing) List(context.Context, metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	r.requests++
	return nil, errRefused
}

// TestRequestsOfAnEvent counts, in virtual time, the requests that an agent makes to follow events
// of its cluster.
func TestRequestsOfAnEvent(t *testing.T) {
	for _, nodes := range []int{4, 100, 5000} {
		for _, tt := range []struct {
			name   string
			begin  func(*table)
			lasts  time.Duration
			lists  int
			single int // the largest number of requests for one Lease
		}{
			{"the agents of the other nodes restart", func(t *table) {
				t.digests = map[string]Digest{}
				for node := range t.contents {
					t.digests[node] = Digest{Value: digest("192.0.2.0/24", "", "", "", "")}
				}
			}, 4 * time.Minute, 0, 0},
			{"a node loses power", func(t *table) { t.lost = map[string]time.Time{"node-0": at(0)} }, 4 * time.Minute, 0, 2},
			{"a node joins", func(t *table) { t.digests = map[string]Digest{"new": {Value: 1}} }, time.Minute, 0, 1},
		} {
			table := listed(nodes)
			tt.begin(table)
			table.plan(at(0))
			lists, single := 0, 0
			for now := at(0); now.Before(at(0).Add(tt.lasts)); {
				s := table.next(now)
				switch {
				case s.list:
					lists++
					table.listed = now
				case s.node == "new":
					single++
					o := slow(s.node, 1)
					table.observe(&o, now)
					table.digests = nil
				case s.node != "":
					single++
					o := slow(s.node, 0)
					table.observe(&o, now)
					table.judge(s.node, now)
				default:
					now = now.Add(s.wait)
					continue
				}
				table.postpone(now)
			}
			t.Logf("%d nodes, %s: %d lists, %d single Leases", nodes, tt.name, lists, single)
			if lists != tt.lists || single > tt.single || tt.single > 0 && single == 0 {
				t.Errorf("%d nodes, %s: %d lists and %d reads of a Lease, want %d and 1 to %d", nodes, tt.name, lists, single, tt.lists, tt.single)
			}
		}
	}
}
