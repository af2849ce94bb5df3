package announce

import (
	"net/netip"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/service"
)

// Outlook is what the nodes together do with an address of a Service, as far as the cluster's
// objects show it.
type Outlook struct {
	Service string
	IP      netip.Addr
	// Where is Local if one node announces it, Remote if all nodes do, and Nowhere
	// if none can.
	Where Where
	// Choice is the node that should have a local address. Holder is the node that is known to
	// have it now, or "".
	Choice election.Choice
	Holder string
	// Idle says that the group withdraws the address while no Service that has it has an
	// endpoint. If that is certain, Where is Nowhere.
	Idle bool
	// Preference is for nodes with an endpoint of the Service. Undecided says that the nodes
	// with endpoints are unknown.
	Preference election.Preference
	Undecided  bool
	// Narrow says that only nodes with a ready endpoint take the traffic of a remote address,
	// so only these announce it.
	Narrow bool
	// Prefix is a remote address with its mask on the dummy interface.
	Prefix netip.Prefix
	// Owner is the node that has the address as its own. Then no other node may have it.
	Owner string
}

// Foresee returns the Outlook of every address of s, in order of Service. It uses the rules
// of Decide. It leaves out what a node finds out by itself: its interfaces, and which
// machines answer on the wire.
func Foresee(s Situation) []Outlook {
	s.Self, s.Node = "", Node{}
	s.Idle = settled(s)
	d := newDecider(s)
	var all []Outlook
	for _, svc := range d.Services {
		for _, ip := range svc.Addresses {
			o := d.foresee(ip)
			o.Service = svc.Key
			all = append(all, o)
		}
	}
	return all
}

func (d *decider) foresee(ip netip.Addr) Outlook {
	o := Outlook{IP: ip, Owner: d.Peers.Own[ip]}
	switch idle, known := d.idle(ip); {
	case !known:
		o.Idle, o.Undecided = true, true
	case idle:
		o.Idle = true
		return o
	}
	if !d.isLocal(ip) {
		prefix, ok := d.remotePrefix(ip)
		if ok {
			_, narrow := d.narrowed(ip)
			o.Where, o.Prefix, o.Narrow = Remote, prefix, narrow
		}
		return o
	}
	preference, known := d.preference(ip)
	o.Where, o.Preference, o.Undecided, o.Holder = Local, preference, o.Undecided || !known, d.holder(ip)
	o.Choice = d.elect(ip, preference)
	return o
}

// Candidacy says whether a member of the cluster may have an address.
type Candidacy struct {
	Node string
	// Fit says that the node may have the address. Why gives the reason in both cases.
	Fit bool
	Why string
}

// Candidates returns for every member whether it can announce ip, in the order of members.
// Choose picks a fit member.
func Candidates(members []election.Member, ip netip.Addr, p election.Preference) []Candidacy {
	var all []Candidacy
	for _, m := range members {
		one := Candidacy{Node: m.Node}
		switch alone := election.NewView([]election.Member{m}); {
		case !m.Eligible:
			one.Why = "its agent is leaving"
		case !alone.IsCandidate(m.Node, ip):
			one.Why = "it has no interface in the network of " + ip.String() + networks(m.Subnets, ip)
		case p.Strict && !p.Nodes[m.Node]:
			one.Why = "it has no ready endpoint of the Service, whose externalTrafficPolicy is Local"
		case m.Unproven:
			one.Why = "nothing but an old Lease tells of it"
		case m.Draining:
			one.Fit, one.Why = true, "it is being drained, so it comes last"
		case p.Nodes[m.Node]:
			one.Fit, one.Why = true, "it has a ready endpoint of the Service, so it comes first"
		default:
			one.Fit, one.Why = true, "it has an interface in the network"
		}
		all = append(all, one)
	}
	return all
}

// networks lists the subnets that have the family of ip.
func networks(subnets []netip.Prefix, ip netip.Addr) string {
	text := ""
	for _, s := range subnets {
		if addr.FamilyOf(s.Addr()) == addr.FamilyOf(ip) {
			if text != "" {
				text += ", "
			}
			text += s.String()
		}
	}
	if text == "" {
		return ""
	}
	return "; it has " + text
}

// Why says why the node of the Choice should have a local address.
func (o Outlook) Why() string {
	reason := ReasonElected
	switch o.Choice.Reason {
	case election.ReasonNoCandidates:
		reason = ReasonNoEligibleNodes
	case election.ReasonNoEndpoints:
		reason = ReasonNoEndpoints
	}
	why := Decision{Where: o.Where, Reason: reason, Winner: o.Choice.Node, Because: o.Choice.Reason}.Why()
	if named := o.Preference.Named; named != "" && o.Choice.Node != named {
		why += "; node " + named + ", which its Service names by the annotation " + service.AnnotationNode + ", cannot have it now"
	}
	return why
}
