package lease

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// fastTable returns the table of node-a, whose Lease counts for ten seconds.
func fastTable() *table {
	t := newTable(Options{Node: "node-a", Duration: 10 * time.Second, RetryPeriod: 2 * time.Second})
	t.synced = true
	return t
}

// renewed makes node-a renew its Lease. The watch shows that at once.
func renewed(t *table, now time.Time, create bool) {
	o := leaseOf("node-a", now, "192.0.2.0/24,2001:db8::/64")
	t.send(versionOf(o), create, now)
	t.observe(o, now)
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

func isPeers(t *testing.T, got election.Peers, want string) {
	t.Helper()
	expect.Equal(t, "the result of the election", showPeers(got), want)
}

const (
	onlyA = "node-a[192.0.2.0/24 2001:db8::/64] known[192.0.2.0/24 2001:db8::/64] trusted=true"
	both  = "node-a[192.0.2.0/24 2001:db8::/64] node-b[192.0.2.0/24 2001:db8::/64] known[192.0.2.0/24 2001:db8::/64] trusted=true"
	bDead = onlyA
)

func TestNoTrustBeforeOurLeaseIsObserved(t *testing.T) {
	table := fastTable()
	table.observe(leaseOf("node-b", at(0), "192.0.2.0/24"), at(0))
	isPeers(t, table.peers(at(0)), "node-b[192.0.2.0/24] known[192.0.2.0/24] trusted=false")
	renewed(table, at(1), false)
	if !table.peers(at(1)).Trusted {
		t.Error("the result is not trusted after our Lease was observed")
	}
}

func TestANewNodeWaitsUntilTheOthersKnowIt(t *testing.T) {
	table := fastTable()
	renewed(table, at(0), true)
	if table.peers(at(1.9)).Trusted {
		t.Error("the result is trusted before nodes that started together could see each other")
	}
	if !table.peers(at(2)).Trusted {
		t.Error("the result is not trusted after the retry period")
	}
}

func TestLeaseCountsFromTheObservedChange(t *testing.T) {
	table := fastTable()
	table.observe(leaseOf("node-b", at(0), "192.0.2.0/24,2001:db8::/64"), at(0))
	for s := 0.0; s <= 9; s += 3 {
		renewed(table, at(s), false)
	}
	isPeers(t, table.peers(at(9)), both)
	if table.overdue(at(9)) {
		t.Error("the Lease is overdue within its duration")
	}
	if !table.overdue(at(10)) {
		t.Error("no check is due when the duration of the Lease ends")
	}
	renewed(table, at(10), false)
	isPeers(t, table.peers(at(10)), bDead)
}

func TestSubnetsOfDeadNodesAreKnownUntilDeletion(t *testing.T) {
	table := fastTable()
	o := leaseOf("node-b", at(0), "198.51.100.0/24")
	table.observe(o, at(0))
	renewed(table, at(0), false)
	renewed(table, at(11), false) // after the gap, node-b gets a full duration again
	renewed(table, at(16), false)
	renewed(table, at(21), false)
	isPeers(t, table.peers(at(21)), "node-a[192.0.2.0/24 2001:db8::/64] known[192.0.2.0/24 198.51.100.0/24 2001:db8::/64] trusted=true")
	table.forget(o)
	isPeers(t, table.peers(at(21)), onlyA)
}

func TestNoNodeDiesWhileWeAreCutOff(t *testing.T) {
	table := fastTable()
	table.observe(leaseOf("node-b", at(0), "192.0.2.0/24,2001:db8::/64"), at(0))
	renewed(table, at(0), false)
	untrusted := strings.Replace(both, "trusted=true", "trusted=false", 1)
	isPeers(t, table.peers(at(60)), untrusted)
	renewed(table, at(61), false)
	isPeers(t, table.peers(at(61)), both)
	renewed(table, at(65), false)
	renewed(table, at(69), false)
	isPeers(t, table.peers(at(69)), both)
	renewed(table, at(72), false)
	isPeers(t, table.peers(at(72)), bDead)
}

func TestAnEditByAnotherClientIsNoRenewal(t *testing.T) {
	table := fastTable()
	o := leaseOf("node-b", at(0), "192.0.2.0/24,2001:db8::/64")
	table.observe(o, at(0))
	for s := 0.0; s <= 10; s += 2.5 {
		o.ResourceVersion = fmt.Sprint(s)
		o.Annotations["example.com/note"] = fmt.Sprint(s)
		table.observe(o, at(s))
		renewed(table, at(s), false)
	}
	isPeers(t, table.peers(at(10)), bDead)
}

func TestAnUnknownNodeWithRegainedNetworksWaitsForItsLease(t *testing.T) {
	table := fastTable()
	old := leaseOf("node-a", at(0), "")
	table.send(versionOf(old), true, at(0))
	table.unsettle(at(1))
	table.observe(old, at(1))
	if table.view(at(60)).Settled {
		t.Error("the view is settled by a renewal without the networks")
	}
	renewed(table, at(60), false)
	if table.view(at(61.9)).Settled || !table.view(at(62)).Settled {
		t.Error("the view is settled before the other nodes had time to publish their networks")
	}
}

func TestAddressesAndMACsAreKnownUntilTheLeaseIsDeleted(t *testing.T) {
	table := fastTable()
	b, c := leaseOf("node-b", at(0), "192.0.2.0/24"), leaseOf("node-c", at(0), "192.0.2.0/24")
	table.observe(c, at(0))
	b.Annotations[AnnotationAddresses] = "192.0.2.2, 2001:db8::2,nonsense,::ffff:172.17.0.1"
	b.Annotations[AnnotationMACs] = "02:00:00:00:00:0b,nonsense"
	c.Annotations[AnnotationAddresses] = "172.17.0.1"
	if !table.observe(b, at(0)) || !table.observe(c, at(0)) {
		t.Error("new addresses count as no change")
	}
	expect.Equal(t, "the MACs of the dead node", fmt.Sprint(table.peers(at(100)).MACs), "map[[2 0 0 0 0 11]:node-b]")
	const all = "map[172.17.0.1:node-b 192.0.2.2:node-b 2001:db8::2:node-b]"
	expect.Equal(t, "addresses of the dead node", fmt.Sprint(table.peers(at(100)).Own), all)
	table.forget(b)
	expect.Equal(t, "the MACs without node-b's Lease", len(table.peers(at(100)).MACs), 0)
	expect.Equal(t, "addresses without node-b's Lease", fmt.Sprint(table.peers(at(100)).Own), "map[172.17.0.1:node-c]")
}

func TestMostRenewalsChangeNothing(t *testing.T) {
	table := fastTable()
	if !table.observe(leaseOf("node-b", at(0), "192.0.2.0/24"), at(0)) {
		t.Error("a new node counts as no change")
	}
	if table.observe(leaseOf("node-b", at(1), "192.0.2.0/24"), at(1)) {
		t.Error("a renewal counts as a change")
	}
	if !table.observe(leaseOf("node-b", at(2), "192.0.2.0/24,2001:db8::/64"), at(2)) {
		t.Error("a new subnet counts as no change")
	}
}

func TestReadableSubnetsAreKept(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "[]"},
		{"192.0.2.0/24,2001:db8::/64", "[192.0.2.0/24 2001:db8::/64]"},
		{"192.0.2.7/24, 2001:db8::7/64", "[192.0.2.0/24 2001:db8::/64]"},
		{"nonsense,192.0.2.0/24,,10.0.0.0/99", "[192.0.2.0/24]"},
		{strings.Repeat("192.0.2.0/24,", 1000), fmt.Sprint(parseSubnets(strings.Repeat("192.0.2.0/24,", maxSubnets)))},
	} {
		expect.Equal(t, fmt.Sprintf("the subnets of %.40q", tt.text), fmt.Sprint(parseSubnets(tt.text)), tt.want)
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
