package peering

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
)

// Limits of the lists in a BGPNodeStatus. Every heartbeat of every node writes the whole object
// into etcd. So each list has the entries with problems, and then a few examples. The counts and
// the ranges include all entries. Neighbors have no limit, because the BGPConfiguration that names them is
// larger than their status.
const (
	mostListed = 5
	mostRanges = 32
)

// Report holds everything that a BGPNodeStatus reports.
type Report struct {
	Node string
	Now  time.Time
	// Whole says that the lists of the status have all entries.
	Whole bool
	// Unconfigured says that there is no BGPConfiguration. Leaving says that the speaker is
	// about to end.
	Unconfigured, Leaving bool
	// Withdrawn is why the node withdraws all routes on purpose, or "".
	Withdrawn string
	Decision  Decision
	// Unapplied are the problems of the server with the Decision's State.
	Unapplied []Problem
	// Pending is when a waiting change that ends sessions takes effect, or zero if none waits.
	Pending time.Time
	// Failures lists parts that should run but do not, and facts that could not be read.
	Failures []string

	Neighbors []NeighborStatus
	// BFD holds the states of BFD sessions, by the name of the neighbor.
	BFD map[string]string

	Interfaces []Interface
	Imported   []Imported
	// Since is when the first address of each family was imported.
	Since map[addr.Family]time.Time
	// Elsewhere is the number of addresses that only other nodes announce.
	Elsewhere int
	// Local holds the announced routes. They and the Learned ones are sorted.
	Local    []Route
	Learned  []LearnedRoute
	Exported []Exported
}

// Interface is an interface whose addresses are imported, or a name or pattern that matches
// no interface.
type Interface struct {
	Name       string
	Exists, Up bool
}

// Exported is a route that should be in a routing table of the kernel, and why it is not
// there.
type Exported struct {
	Prefix    netip.Prefix
	Table     uint32
	Metric    uint32
	Installed bool
	Reason    string
}

// NodeStatus returns the status of the node. A time in the status changes only with its subject.
// previous is the last status.
func NodeStatus(in Report, previous bgpv1.BGPNodeStatusStatus) bgpv1.BGPNodeStatusStatus {
	d := in.Decision
	neighbors, missing := in.neighbors()
	failures := in.failures(missing)
	now := metav1.NewTime(in.Now.Truncate(time.Second))
	out := bgpv1.BGPNodeStatusStatus{
		NodeName:         in.Node,
		RouterIDSource:   d.RouterIDSource,
		ASN:              int64(d.State.Global.ASN),
		LastUpdated:      &now,
		HeartbeatSeconds: int32(d.Heartbeat / time.Second),
		NeighborCount:    int32(len(neighbors)),
		Healthy:          len(failures) == 0 && !in.Leaving,
		Neighbors:        neighbors,
		NetlinkImport:    in.netlinkImport(),
		RIB:              in.rib(),
		NetlinkExport:    in.netlinkExport(),
	}
	if id := d.State.Global.RouterID; id.IsValid() {
		out.RouterID = id.String()
	}
	out.Conditions = conditions(previous.Conditions, now, in.ready(failures), in.configured(), in.resolved())
	return out
}

// neighbors returns the wanted neighbors, further neighbors of the server, and the neighbors that
// are left out. missing says what is wrong with them.
func (in Report) neighbors() (all []bgpv1.NodeNeighbor, missing []string) {
	found := in.found()
	for _, p := range in.Decision.State.Peers {
		n := in.of(p, found)
		n.PeerASN, n.LocalASN, n.Description = cmp.Or(p.ASN, n.PeerASN), p.LocalASN, p.Description
		all = append(all, in.neighbor(n))
		if wrong := in.problemOf(p, n); wrong != "" {
			missing = append(missing, wrong)
		}
	}
	for _, n := range in.Neighbors {
		if in.Decision.peer(n.Name()) == nil {
			all = append(all, in.neighbor(n))
		}
	}
	for _, l := range in.Decision.LeftOut {
		all = append(all, bgpv1.NodeNeighbor{
			Address: l.Name, PeerASN: int64(l.ASN), LocalASN: int64(in.Decision.State.Global.ASN),
			State: Idle, Description: l.Description, LastError: l.Message,
		})
		missing = append(missing, l.Name+" is left out")
	}
	slices.SortStableFunc(all, func(a, b bgpv1.NodeNeighbor) int { return compareAddresses(a.Address, b.Address) })
	return all, missing
}

// found returns the neighbors of the server by their names.
func (in Report) found() map[string]NeighborStatus {
	found := make(map[string]NeighborStatus, len(in.Neighbors))
	for _, n := range in.Neighbors {
		found[n.Name()] = n
	}
	return found
}

// of returns the status of p, which the server may not have at all.
func (in Report) of(p Peer, found map[string]NeighborStatus) NeighborStatus {
	if n, there := found[p.Name()]; there {
		return n
	}
	return NeighborStatus{Address: p.Address, Interface: p.Interface, State: Idle, AdminDown: p.AdminDown, LastError: in.unapplied(p)}
}

// bfdWait is how long a BGP session may be without BFD, because BFD starts after BGP.
const bfdWait = 10 * time.Second

// problemOf says what is wrong with a neighbor, or returns "".
func (in Report) problemOf(p Peer, n NeighborStatus) string {
	switch {
	case p.AdminDown:
		return ""
	case n.State != Established:
		return p.Name() + " is " + cmp.Or(n.State, Idle) + because(in.why(n))
	case p.BFD != nil && in.BFD[p.Name()] != bfdUp && in.Now.Sub(n.UpSince) >= bfdWait:
		return fmt.Sprintf("BFD with %s is %s, so a failure is noticed only when the hold time is over", p.Name(), cmp.Or(in.BFD[p.Name()], "not running"))
	}
	return ""
}

// bfdUp is the state of a working BFD session.
const bfdUp = "Up"

// Healthy returns the neighbors that this node should have, and whether each is without problems.
// Without a BGPConfiguration the node should have no neighbors, regardless of the last decision.
func (in Report) Healthy() map[string]bool {
	if in.Unconfigured {
		return nil
	}
	found := in.found()
	all := map[string]bool{}
	for _, p := range in.Decision.State.Peers {
		if !p.AdminDown {
			all[p.Name()] = in.problemOf(p, in.of(p, found)) == ""
		}
	}
	for _, l := range in.Decision.LeftOut {
		all[l.Name] = false
	}
	return all
}

// unapplied says why the server does not have a neighbor.
func (in Report) unapplied(p Peer) string {
	taken := slices.DeleteFunc(slices.Clone(in.Decision.Problems), func(o Problem) bool { return o.Reason != ReasonSessionTaken })
	for _, problem := range slices.Concat(in.Unapplied, taken) {
		if problem.Field == p.Path {
			return problem.Message
		}
	}
	return ""
}

func (in Report) neighbor(n NeighborStatus) bgpv1.NodeNeighbor {
	out := bgpv1.NodeNeighbor{
		Address: n.Name(), Interface: n.Interface,
		PeerASN: int64(n.PeerASN), LocalASN: int64(n.LocalASN), State: cmp.Or(n.State, Idle),
		StateSince: stamp(n.Since), SessionUpSince: stamp(n.UpSince),
		Description: n.Description, BFD: in.BFD[n.Name()],
	}
	if n.Address.IsValid() {
		out.Address = n.Address.String()
	}
	for f := range n.Sent {
		out.PrefixesSent += int64(n.Sent[f])
	}
	if n.State == Established {
		if in.Decision.restarts(n.Name()) {
			out.GracefulRestart = &n.GracefulRestart
		}
		for _, f := range n.Agreed {
			out.Families = append(out.Families, bgpv1.NeighborFamily{Family: FamilyNames[f], PrefixesSent: int64(n.Sent[f])})
		}
	}
	for f := range n.Received {
		out.PrefixesReceived += int64(n.Received[f])
	}
	if n.State != Established {
		out.LastError = in.lastError(n)
	}
	return out
}

// stuckAfter is how long the setup of a session may take before the status reports it.
const stuckAfter = 5 * time.Second

// lastError says why there is no session, and since when nothing has changed.
func (in Report) lastError(n NeighborStatus) string {
	why := in.why(n)
	if n.AdminDown || !in.stuck(n) {
		return why
	}
	return fmt.Sprintf("%s; state unchanged since %s", why, n.Since.UTC().Format(time.RFC3339))
}

// HoldTimerExpired is the last error of a session whose router fell silent.
const HoldTimerExpired = "the hold timer expired"

// why says why there is no session, or returns "" while the session may still come. That a router fell
// silent in a session says less than that it does not answer at all since then.
func (in Report) why(n NeighborStatus) string {
	silent := n.LastError == "" || n.LastError == HoldTimerExpired
	before := ""
	if n.LastError != "" {
		before = "; in the last session, " + n.LastError
	}
	switch p := in.Decision.peer(n.Name()); {
	case n.AdminDown:
		return "held down by adminDown"
	case !silent || !in.stuck(n):
		return n.LastError
	case p != nil && p.Password != "":
		return "the router does not answer, as it does if its password is not the one of the BGPConfiguration" + before
	}
	return "the router does not answer; see that it has this node as a neighbor, without a password, and that TCP port 179 is open" + before
}

// stuck reports whether the setup of a session takes too long.
func (in Report) stuck(n NeighborStatus) bool {
	return !n.Since.IsZero() && in.Now.Sub(n.Since) >= stuckAfter
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// stamp returns t in the form of the API, or nil if it is zero.
func stamp(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	out := metav1.NewTime(t.Truncate(time.Second))
	return &out
}

// failures returns everything that is wrong.
func (in Report) failures(missing []string) []string {
	if in.Unconfigured {
		return in.Failures
	}
	all := slices.Clone(in.Failures)
	if !in.Decision.OK {
		all = append(all, "the configuration is not in effect")
	}
	all = append(all, missing...)
	announced := in.announced()
	absent := 0
	for _, i := range in.Imported {
		if !announced.has(i.Address) {
			absent++
		}
	}
	if absent > 0 {
		all = append(all, fmt.Sprintf("%d of %d imported addresses are not announced", absent, len(in.Imported)))
	}
	all = append(all, in.unannounced()...)
	uninstalled := 0
	for _, e := range in.Exported {
		if !e.Installed {
			uninstalled++
		}
	}
	if uninstalled > 0 {
		all = append(all, fmt.Sprintf("%d of %d exported routes are not in the kernel", uninstalled, len(in.Exported)))
	}
	return all
}

// announced holds the prefixes of the routes, by their lengths.
type announced map[int]map[netip.Prefix]bool

func (in Report) announced() announced {
	all := announced{}
	for _, r := range in.Local {
		bits := r.Prefix.Bits()
		if all[bits] == nil {
			all[bits] = make(map[netip.Prefix]bool, len(in.Local))
		}
		all[bits][r.Prefix] = true
	}
	return all
}

// has reports whether a route covers an address. The route may have another mask than the address has
// on its interface.
func (a announced) has(address netip.Prefix) bool {
	for bits, routes := range a {
		if p, err := address.Addr().Prefix(bits); err == nil && routes[p] {
			return true
		}
	}
	return false
}

func (in Report) netlinkImport() *bgpv1.NodeImport {
	d := in.Decision
	out := &bgpv1.NodeImport{Enabled: d.Import.Enabled, TotalImported: int32(len(in.Imported)), Elsewhere: int32(in.Elsewhere)}
	for _, i := range in.Interfaces {
		state := "down"
		if i.Up {
			state = "up"
		}
		out.Interfaces = append(out.Interfaces, bgpv1.NodeInterface{Name: i.Name, Exists: i.Exists, OperState: state})
	}
	imported := slices.Clone(in.Imported)
	announced := in.announced()
	slices.SortFunc(imported, func(a, b Imported) int {
		return cmp.Or(TrueLast(announced.has(a.Address), announced.has(b.Address)), byRoute(a, b))
	})
	imported, out.Truncated = first(imported, in.most())
	for _, i := range imported {
		out.ImportedAddresses = append(out.ImportedAddresses, bgpv1.ImportedAddress{
			Address: i.Address.String(), Interface: i.Interface, InRIB: announced.has(i.Address),
		})
	}
	return out
}

// TrueLast sorts false before true.
func TrueLast(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// most returns how many entries a list of the status may have.
func (in Report) most() int {
	if in.Whole {
		return math.MaxInt
	}
	return mostListed
}

// first returns the beginning of a list, and whether there is more.
func first[T any](list []T, most int) ([]T, bool) {
	if len(list) > most {
		return list[:most], true
	}
	return list, false
}

func (in Report) rib() *bgpv1.NodeRIB {
	out := &bgpv1.NodeRIB{LocalRouteCount: int32(len(in.Local)), ReceivedRouteCount: int32(len(in.Learned))}
	out.LocalRanges = ranges(in.Local)
	local, moreLocal := first(in.Local, in.most())
	for _, r := range local {
		self := netip.IPv6Unspecified()
		if r.Prefix.Addr().Is4() {
			self = netip.IPv4Unspecified()
		}
		out.LocalRoutes = append(out.LocalRoutes, bgpv1.RIBRoute{
			Prefix: r.Prefix.String(), NextHop: self.String(),
			Communities: communityTexts(r.Attributes.Communities, r.Attributes.LargeCommunities),
			Weight:      int64(r.Attributes.Weight),
		})
	}
	learned, moreLearned := first(in.Learned, in.most())
	for _, r := range learned {
		out.ReceivedRoutes = append(out.ReceivedRoutes, bgpv1.RIBRoute{
			Prefix: r.Prefix.String(), NextHop: text(r.NextHop), FromPeer: text(r.From),
			Communities: communityTexts(r.Communities, r.LargeCommunities),
		})
	}
	out.Truncated = moreLocal || moreLearned
	return out
}

// ranges returns the destinations of all routes as ranges, or nil if there are too many.
func ranges(routes []Route) []string {
	var all []addr.Range
	for _, r := range routes {
		all = append(all, addr.Range{From: r.Prefix.Masked().Addr(), To: addr.Last(r.Prefix)})
	}
	merged := addr.Merge(all)
	if len(merged) > mostRanges {
		return nil
	}
	var texts []string
	for _, r := range merged {
		texts = append(texts, r.String())
	}
	return texts
}

// text returns the text of an address, or "".
func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// compareAddresses sorts addresses by value, before texts that are no addresses.
func compareAddresses(a, b string) int {
	ipA, errA := netip.ParseAddr(a)
	ipB, errB := netip.ParseAddr(b)
	return cmp.Or(TrueLast(errA != nil, errB != nil), ipA.Compare(ipB), cmp.Compare(a, b))
}

func communityTexts(communities []uint32, large []string) []string {
	var all []string
	for _, c := range communities {
		all = append(all, communityText(c))
	}
	return append(all, large...)
}

func (in Report) netlinkExport() *bgpv1.NodeExport {
	d := in.Decision
	out := &bgpv1.NodeExport{
		Enabled: len(d.Export) > 0, Protocol: int32(d.Protocol), DampeningInterval: int32(d.Dampening / time.Millisecond),
		TotalExported: int32(len(in.Exported)),
	}
	for _, rule := range d.Export {
		out.Rules = append(out.Rules, bgpv1.NodeExportRule{Name: rule.Name, Metric: int64(rule.Metric), TableID: int64(rule.Table)})
	}
	exported := slices.Clone(in.Exported)
	slices.SortFunc(exported, func(a, b Exported) int {
		return cmp.Or(TrueLast(a.Installed, b.Installed), cmp.Compare(a.Table, b.Table), a.Prefix.Compare(b.Prefix), cmp.Compare(a.Metric, b.Metric))
	})
	exported, out.Truncated = first(exported, in.most())
	for _, e := range exported {
		out.ExportedRoutes = append(out.ExportedRoutes, bgpv1.ExportedRoute{
			Prefix: e.Prefix.String(), Table: tableName(e.Table), Metric: int64(e.Metric), Installed: e.Installed, Reason: e.Reason,
		})
	}
	return out
}

func tableName(n uint32) string {
	if n == 0 || n == 254 {
		return "main"
	}
	return strconv.FormatUint(uint64(n), 10)
}
