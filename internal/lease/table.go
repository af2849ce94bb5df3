package lease

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"purelb.io/purelb/internal/election"
)

// table is what was seen of all Leases. It is not safe for concurrent use.
type table struct {
	self     string
	duration time.Duration
	live     *election.Liveness
	// subnets are those of all Leases that exist, by node, and known is
	// their union.
	subnets map[string][]netip.Prefix
	known   []netip.Prefix
	// addresses are those that nodes have themselves, and own is the same
	// the other way round.
	addresses map[string][]netip.Addr
	own       map[netip.Addr]string
	// synced says that the first list of all Leases is in.
	synced bool
	// sent are our renewals that have not come back by the watch, by version,
	// with the time at which each was sent.
	sent     map[string]time.Time
	lastSent time.Time
	// settled is from when the others know of us; zero until our Lease came
	// back. A node that nobody knew of waits for settle before it takes
	// anything, so that nodes that start together see each other first;
	// settling is what this one waits.
	settled          time.Time
	settle, settling time.Duration
}

func newTable(opt Options) *table {
	return &table{
		self:      opt.Node,
		duration:  opt.Duration,
		live:      election.NewLiveness(opt.silence()),
		subnets:   map[string][]netip.Prefix{},
		addresses: map[string][]netip.Addr{},
		sent:      map[string]time.Time{},
		settle:    opt.RetryPeriod,
	}
}

// observe notes the Lease o as the watch shows it, and says whether that may
// change what is known of the nodes. Most renewals do not, and with a thousand
// nodes there are hundreds in a second.
func (t *table) observe(o *coordinationv1.Lease, now time.Time) bool {
	node, ok := nodeOf(o)
	if !ok {
		return false
	}
	before, seen := t.subnets[node]
	owned := t.addresses[node]
	t.subnets[node], t.addresses[node] = Subnets(o), Addresses(o)
	t.live.Observe(node, versionOf(o), durationOf(o, t.duration), now)
	news := !seen || !slices.Equal(before, t.subnets[node]) || !slices.Equal(owned, t.addresses[node])
	if news {
		t.known, t.own = known(t.subnets), owners(t.addresses)
	}
	if node == t.self {
		t.echo(versionOf(o), now)
	}
	return news || node == t.self
}

// echo notes that our renewal version came back by the watch: proof that our
// writes and the watch both work, and that the watch has shown us everything
// before it.
func (t *table) echo(version string, now time.Time) {
	at, ok := t.sent[version]
	if !ok {
		return
	}
	maps.DeleteFunc(t.sent, func(_ string, other time.Time) bool { return !other.After(at) })
	t.live.Contact(at)
	if t.settled.IsZero() {
		t.settled = now.Add(t.settling)
	}
}

// send notes that version is on its way at now, the first one ever if create.
func (t *table) send(version string, create bool, now time.Time) {
	t.sent[version], t.lastSent = now, now
	if create && t.settled.IsZero() {
		t.settling = t.settle
	}
}

// forget notes that the Lease o is gone. If it is ours, somebody deleted it: the
// others may take over what we hold, so nothing counts until they know of us again.
func (t *table) forget(o *coordinationv1.Lease) {
	node, ok := nodeOf(o)
	if !ok {
		return
	}
	delete(t.subnets, node)
	delete(t.addresses, node)
	t.known, t.own = known(t.subnets), owners(t.addresses)
	t.live.Forget(node)
	if node == t.self {
		t.settled = time.Time{}
	}
}

// unsettle notes that this node has networks of which the others do not know: it
// waits until they can, as one that is new does, so that nodes of which a mistake
// is mended at the same moment take nothing from each other.
func (t *table) unsettle() {
	clear(t.sent)
	t.settled, t.settling = time.Time{}, t.settle
}

// overdue says whether a renewal is due before its time, because somebody's
// silence waits for a proof of contact to count.
func (t *table) overdue(now time.Time) bool {
	at, ok := t.live.Next()
	return ok && !now.Before(at) && !t.lastSent.IsZero() && t.lastSent.Before(at)
}

// peers returns what is known at now.
func (t *table) peers(now time.Time) election.Peers {
	nodes, trusted := t.live.Live(now)
	p := election.Peers{
		Known:   t.known,
		Own:     t.own,
		Trusted: trusted && t.synced && !t.settled.IsZero() && !now.Before(t.settled),
	}
	for _, node := range nodes {
		p.Members = append(p.Members, election.Member{Node: node, Subnets: t.subnets[node], Eligible: true})
	}
	return p
}

// known returns the subnets of all Leases that exist.
func known(subnets map[string][]netip.Prefix) []netip.Prefix {
	var all []netip.Prefix
	for _, s := range subnets {
		all = append(all, s...)
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all)
}

// owners returns who has each of addresses: of several, the first by name.
func owners(addresses map[string][]netip.Addr) map[netip.Addr]string {
	own := map[netip.Addr]string{}
	for node, all := range addresses {
		for _, a := range all {
			if other, taken := own[a]; !taken || node < other {
				own[a] = node
			}
		}
	}
	return own
}

// equal says whether a and b lead to the same decisions.
func equal(a, b election.Peers) bool {
	return a.Trusted == b.Trusted && slices.Equal(a.Known, b.Known) && maps.Equal(a.Own, b.Own) &&
		slices.EqualFunc(a.Members, b.Members, func(m, n election.Member) bool {
			return m.Node == n.Node && m.Eligible == n.Eligible && slices.Equal(m.Subnets, n.Subnets)
		})
}
