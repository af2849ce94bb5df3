package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
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
		expect.Equal(t, fmt.Sprintf("the digest of record %d in its Lease", i), parsed(written(r)).digest, r.Digest())
	}
	drains := record("192.0.2.0/24")
	drains.Draining, drains.Problem, drains.Claims = "cordoned", "none", []Claim{claim("192.0.2.9", 7)}
	expect.Equal(t, "the digest of a record with data that gossip carries or no agent reads", drains.Digest(), record("192.0.2.0/24").Digest())
}

// A network of node-b is gone, but its gossip record has no room for that. Without polling, the
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
	l.SetMode(hears("node-b", now.Digest()))
	other.Publish(now)
	await(t, l, "one network", known(1))

	// The agent of node-b leaves. Without its deletion, the Lease would remain until the next list.
	expect.NoError(t, other.Delete(t.Context()))
	l.SetMode(Mode{Gossip: map[string]election.Gossiped{"node-b": {State: election.Left}}})
	await(t, l, "node-a alone", func(p election.Peers) bool { return len(p.Members) == 1 })
}

func TestReasonsToReadALease(t *testing.T) {
	const other = 1
	same := digest("192.0.2.0/24", "", "", "", "", "")
	for _, tt := range []struct {
		name  string
		mode  Mode
		first string // what table reads next at 100 s
		then  string // the read after that one told nothing new
	}{
		{"without a change", Mode{}, "nothing for 3m20s", ""},
		{"gossip has the known digest", hears("node-0", same), "nothing for 3m20s", ""},
		{"the content changed", hears("node-0", other), "nothing for 1.02s", "nothing for 2.02s"},
		{"a new node", hears("node-9", other), "nothing for 1.02s", "nothing for 2.02s"},
		{"a new node that has not read its networks", hears("node-9", 0), "nothing for 1.02s", "nothing for 2.02s"},
		{"the digest of this node", hears("node-a", other), "nothing for 3m20s", ""},
		{"a lost node", lost(100, "node-0"), "nothing for 5.12s", "nothing for 5.12s"},
		{"a lost node without a Lease", lost(100, "node-9"), "nothing for 3m20s", ""},
		{"a Lease is unproven", Mode{Unproven: map[string]bool{"node-0": true}}, "nothing for 1m25.12s", "nothing for 5.12s"},
		{"polling", Mode{Poll: true, Gossip: lost(100, "node-0").Gossip}, "all", ""},
	} {
		table := listed(4)
		table.change(tt.mode, at(100))
		table.plan(at(101)) // it plans nothing again
		first := table.next(at(100))
		expect.Equal(t, tt.name+": what the table reads", first.String(), tt.first)
		if tt.then == "" {
			continue
		}
		now := at(100).Add(first.wait)
		s := table.next(now)
		if s.node == "" || s.list {
			t.Errorf("%s: the table reads %s when the Lease is due", tt.name, s)
		}
		table.answered(now, s.node)
		expect.Equal(t, tt.name+": what the table reads after a read that told nothing new", table.next(now).String(), tt.then)
	}
}

func TestAnUnchangedLeaseIsReadAtGrowingIntervals(t *testing.T) {
	table := listed(4)
	table.change(hears("node-0", 1), at(0))
	var pauses []time.Duration
	for now := at(0); len(pauses) < 12; table.listed = now {
		s := table.next(now)
		pauses = append(pauses, s.wait)
		now = now.Add(s.wait)
		table.answered(now, "node-0")
	}
	for i := range pauses[1:] {
		if want := min(2*pauses[i], resync); i > 0 && pauses[i+1] != want {
			t.Errorf("the pauses between the reads are %v, want growing ones", pauses)
		}
	}
}

// In a large cluster an agent may wait for some seconds before it reads a Lease. It still reads a
// Lease that changes more often, for example because a link goes up and down.
func TestFrequentlyChangingLeaseIsRead(t *testing.T) {
	table := listed(1000)
	for i := range 4 { // every 2 s, and the Lease is due 6 s after the first change
		now := float64(2 * i)
		table.change(hears("node-0", uint64(i+1)), at(now))
		if i < 3 {
			reads(t, table, now, fmt.Sprint("nothing for ", 6*time.Second-time.Duration(2*i)*time.Second))
		}
	}
	reads(t, table, 6, "node-0")
}

// A change of a group may change the weights of all nodes at once.
func TestLeasesThatAreDueTogetherAreReadOneAfterAnother(t *testing.T) {
	table, m := listed(4), hears("node-0", 1)
	m.Gossip["node-1"], m.Gossip["node-2"] = m.Gossip["node-0"], m.Gossip["node-0"]
	table.change(m, at(0))
	for _, node := range []string{"node-0", "node-1", "node-2"} {
		reads(t, table, 1.02, node)
		table.answered(at(1.02), node)
	}
	reads(t, table, 1.02, "nothing for 2.02s")
}

func TestManyDueLeasesAreListed(t *testing.T) {
	for _, tt := range []struct {
		lost int
		want string
	}{{few, "node-0"}, {few + 1, "all"}} {
		table := listed(100)
		var nodes []string
		for i := range tt.lost {
			nodes = append(nodes, fmt.Sprint("node-", i))
		}
		table.change(lost(100, nodes...), at(100))
		reads(t, table, 100, "nothing for 8s")
		reads(t, table, 108, tt.want)
		table.listed = at(105) // soon after a list, waiting is cheaper than another list
		if tt.lost > few {
			reads(t, table, 108, "nothing for 5s")
		}
		reads(t, table, 113, tt.want)
	}
}

// The number of lists of all nodes together does not grow faster than the number of nodes.
func TestListsAreRareInLargeClusters(t *testing.T) {
	for _, tt := range []struct {
		nodes      int
		idle, poll time.Duration
	}{{1, 5 * time.Minute, time.Second}, {300, 5 * time.Minute, time.Second}, {1000, 12 * time.Minute, 3 * time.Second}} {
		table := listed(tt.nodes)
		reads(t, table, 0, fmt.Sprint("nothing for ", tt.idle))
		table.change(Mode{Poll: true}, at(0))
		reads(t, table, 0, fmt.Sprint("nothing for ", tt.poll))
	}
}

// The agent keeps the pause after a failed request, even after a signal to look again or when a
// Lease is due.
func TestAFailedRequestIsNotRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &refusing{}
		l := New(Options{Client: client, Node: "node-a", Duration: 10 * time.Second, RenewDeadline: 7 * time.Second, RetryPeriod: 2 * time.Second, Log: slog.New(slog.DiscardHandler)})
		l.SetMode(hears("node-b", 1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		done := make(chan struct{})
		go func() { defer close(done); l.follow(ctx) }()
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
	}{{4, time.Second, 3200 * time.Millisecond}, {100, 2500 * time.Millisecond, 7500 * time.Millisecond}, {1000, 16 * time.Second, 48 * time.Second}} {
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
	for _, nodes := range []int{4, 100, 1000} {
		for _, tt := range []struct {
			name   string
			begin  func(*table) Mode
			lasts  time.Duration
			lists  int
			single int // the largest number of requests for one Lease
		}{
			{"the agents of the other nodes restart", func(t *table) Mode {
				m := Mode{Gossip: map[string]election.Gossiped{}}
				for node := range t.seen {
					m.Gossip[node] = hears(node, digest("192.0.2.0/24", "", "", "", "", "")).Gossip[node]
				}
				return m
			}, 4 * time.Minute, 0, 0},
			{"a node loses power", func(*table) Mode { return lost(0, "node-0") }, 4 * time.Minute, 0, 2},
			{"a node joins", func(*table) Mode { return hears("new", 1) }, time.Minute, 0, 1},
		} {
			table := listed(nodes)
			table.change(tt.begin(table), at(0))
			lists, single := 0, 0
			for now := at(0); now.Before(at(0).Add(tt.lasts)); {
				s := table.next(now)
				read := []string{s.node}
				switch {
				case s.list:
					lists++
					table.listed, read = now, slices.Collect(maps.Keys(table.wants))
				case s.node == "new":
					single++
					o := slow(s.node, 1)
					table.observe(&o, now)
					table.mode.Gossip = nil
				case s.node != "":
					single++
					o := slow(s.node, 0)
					table.observe(&o, now)
				default:
					now = now.Add(s.wait)
					continue
				}
				table.answered(now, read...)
			}
			t.Logf("%d nodes, %s: %d lists, %d single Leases", nodes, tt.name, lists, single)
			if lists != tt.lists || single > tt.single || tt.single > 0 && single == 0 {
				t.Errorf("%d nodes, %s: %d lists and %d reads of a Lease, want %d and 1 to %d", nodes, tt.name, lists, single, tt.lists, tt.single)
			}
		}
	}
}
