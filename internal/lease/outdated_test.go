package lease

import (
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/internal/election"
)

func TestADigestTellsNetworksAndAddressesApart(t *testing.T) {
	seen := map[uint64]int{0: -1}
	for i, r := range []Record{
		{}, record("192.0.2.0/24"), record("192.0.2.0/25"), record("192.0.2.0/24", "198.51.100.0/24"),
		{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
	} {
		if before, known := seen[r.Digest()]; known {
			t.Errorf("records %d and %d have the same", before, i)
		}
		seen[r.Digest()] = i
	}
	drains := record("192.0.2.0/24")
	drains.Draining, drains.Problem, drains.Claims = "cordoned", "none", []Claim{claim("192.0.2.9", 7)}
	if drains.Digest() != record("192.0.2.0/24").Digest() {
		t.Error("it changes with what gossip has room for, or nobody asks for")
	}
}

// A network of node-b is gone, and its gossip record has no room to say so. Without a
// watch, all Leases are listed only after minutes.
func TestAChangedLeaseIsRead(t *testing.T) {
	client := api(t)
	other, _ := start(t, client, "node-b", 30*time.Second)
	other.Publish(record("192.0.2.0/24", "198.51.100.0/24"))
	await(t, other, "node-b is known", members("node-b"))
	l, _ := start(t, client, "node-a", 30*time.Second)
	l.Keep(Keeping{})
	l.Publish(record("192.0.2.0/24"))
	known := func(n int) func(election.Peers) bool {
		return func(p election.Peers) bool { return len(p.Known) == n }
	}
	await(t, l, "both networks", known(2))

	now := record("192.0.2.0/24")
	l.Keep(Keeping{Told: map[string]uint64{"node-b": now.Digest()}})
	other.Publish(now)
	await(t, l, "one network", known(1))
	if node, _ := l.untilOutdated(); node != "" {
		t.Errorf("the Lease of %s is to be read again", node)
	}
}

func TestAnUnchangedLeaseIsReadAtGrowingIntervals(t *testing.T) {
	start := time.Unix(1000, 0)
	table := newTable(Options{Node: "node-a", Duration: 10 * time.Second})
	for _, node := range []string{"node-a", "node-b"} {
		table.observe(leaseOf(node, start, "192.0.2.0/24"), start)
	}
	told := record("198.51.100.0/24").Digest()
	if !table.tell(map[string]uint64{"node-a": told, "node-b": told, "node-c": told}, start) {
		t.Error("that Leases say something else is no news")
	}
	delete(table.fetches, "node-c")
	var pauses []time.Duration
	now := start
	for range 5 {
		node, at := table.outdated()
		if node != "node-b" {
			t.Fatalf("the Lease of %q is read", node)
		}
		pauses = append(pauses, at.Sub(now).Round(time.Second))
		now = at
		table.fetched(node, now)
	}
	for i := range pauses[1:] {
		if pauses[i+1] != 2*pauses[i] {
			t.Errorf("the pauses are %v", pauses)
		}
	}
	if table.tell(map[string]uint64{"node-b": told}, now) {
		t.Error("what is known already is news")
	}
	table.tell(nil, now)
	if node, _ := table.outdated(); node != "" {
		t.Errorf("the Lease of %q is read that says what it did", node)
	}
}
