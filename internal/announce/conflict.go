package announce

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"purelb.io/purelb/internal/nodes/election"
)

// Conflicts holds the machines that claim addresses of this node, or answer for addresses
// that it should have. A machine that is silent for long is forgotten.
type Conflicts map[Rival]*Conflict

// Rival is a machine beside one of our addresses.
type Rival struct {
	IP  netip.Addr
	MAC [6]byte
}

// Conflict is the state of a Rival.
type Conflict struct {
	Link string
	// Here says that this node had the address too.
	Here bool
	// Heard is when the machine was heard last, and Node the node of the cluster that it
	// was then, or "".
	Heard time.Time
	Node  string
	// reported is when the conflict was reported last, zero if it is to be reported now.
	// asked is when the agent asked last whether the machine is still there.
	reported, asked time.Time
	// identified is when Node was known last.
	identified time.Time
}

const (
	// contestedFor is how long a claim of another machine to an address that is here counts
	// for decisions: the machine claims it only when it sends.
	contestedFor = 30 * time.Second
	// rememberRival is the time after which a conflict is reported again, and the time after
	// which a silent machine is forgotten.
	rememberRival = 10 * time.Minute
	// maxRivals limits the remembered pairs of an address and a machine, and maxMACs the
	// machines of one address: a MAC is easy to forge.
	maxRivals, maxMACs = 1024, 4
	// recheckAfter is the pause before the agent probes again for a machine whose address no
	// Service has. So the agent probes three times before it forgets the machine.
	recheckAfter = 3 * time.Minute
)

// Note records that the machine was heard, and reports whether it is new.
func (c Conflicts) Note(now time.Time, who Rival, link string, here bool) bool {
	one := c[who]
	if one == nil {
		if !c.hasRoom(who.IP) {
			return false
		}
		one = &Conflict{}
		c[who] = one
	}
	quiet := now.Sub(one.Heard) >= contestedFor || one.Here != here
	one.Link, one.Here, one.Heard = link, here, now
	if now.Sub(one.reported) >= rememberRival {
		one.reported = time.Time{}
		return true
	}
	return quiet
}

// hasRoom reports whether one more machine of ip may be remembered.
func (c Conflicts) hasRoom(ip netip.Addr) bool {
	machines := 0
	for who := range c {
		if who.IP == ip {
			machines++
		}
	}
	return len(c) < maxRivals && machines < maxMACs
}

// Identify notes which of the machines are nodes of the cluster. The MACs of a node are known as
// long as the node has a Lease. A machine that was a node when it was last heard counts as that
// node even without the Lease.
func (c Conflicts) Identify(now time.Time, peers election.Peers) {
	for who, one := range c {
		if node := peers.MACs[who.MAC]; node != "" {
			one.Node, one.identified = node, now
		} else if one.Heard.After(one.identified) {
			one.Node = ""
		}
	}
}

// Inherit records a machine that the agent before this one heard, and has reported. node is
// the node of the machine at that time, or "". link is the link of the address, or "" if the
// node has no link for it: then the agent cannot ask for the address.
func (c Conflicts) Inherit(who Rival, node, link string, heard time.Time) {
	if c[who] == nil && c.hasRoom(who.IP) {
		c[who] = &Conflict{Link: link, Heard: heard, Node: node, reported: heard, identified: heard}
	}
}

// NoteContests records the addresses for which other machines answer longer than they should.
// It returns when to look again without an event, or zero.
func (c Conflicts) NoteContests(now time.Time, p Plan, peers election.Peers, contests []Contest) (next time.Time) {
	if len(contests) == 0 {
		return next
	}
	used := make(map[netip.Addr]bool, len(p.Decisions))
	for _, d := range p.Decisions {
		used[d.IP] = d.Used
	}
	for _, contest := range contests {
		ip := contest.Address.Prefix.Addr()
		if at := contest.Since.Add(contest.patience(used[ip], peers)); !now.Before(at) {
			c.Note(now, Rival{ip, contest.MAC}, contest.Address.Link, false)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// patience returns how long the machine may answer before that is reported. The addresses of a node without
// an agent are answered until they expire. used says that a slot names a holder: another program may have
// removed that slot. Other addresses are answered at most for the moment in which they move.
func (c Contest) patience(used bool, peers election.Peers) time.Duration {
	node := peers.MACs[c.MAC]
	if _, lives := peers.Member(node); used || node != "" && !lives {
		return 90 * time.Second
	}
	return time.Second
}

// Forget forgets the machines that have been silent for long.
func (c Conflicts) Forget(now time.Time) {
	maps.DeleteFunc(c, func(_ Rival, one *Conflict) bool { return now.Sub(one.Heard) >= rememberRival })
}

// Contested returns the addresses that are here and that another machine claims.
func (c Conflicts) Contested(now time.Time) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for who, one := range c {
		if one.Here && now.Sub(one.Heard) < contestedFor {
			all[who.IP] = true
		}
	}
	return all
}

// TakeUnreported returns the conflicts to report now, and marks them reported.
func (c Conflicts) TakeUnreported(now time.Time) []Rival {
	return c.Rivals(func(_ Rival, one *Conflict) bool {
		if !one.reported.IsZero() {
			return false
		}
		one.reported = now
		return true
	})
}

// Rivals returns the machines for which wanted is true, sorted.
func (c Conflicts) Rivals(wanted func(Rival, *Conflict) bool) []Rival {
	var all []Rival
	for who, one := range c {
		if wanted(who, one) {
			all = append(all, who)
		}
	}
	slices.SortFunc(all, func(a, b Rival) int { return cmp.Or(a.IP.Compare(b.IP), slices.Compare(a.MAC[:], b.MAC[:])) })
	return all
}

// Claims returns one machine for each address that other machines claim or answer for, sorted by
// address. It returns a node of the cluster only if no other machine claims the address. It leaves
// out an address that another machine answered for before this node took it.
//
// The allocator allocates none of these addresses. After a Service got another address, only
// Recheck makes the agent probe for its first one.
func (c Conflicts) Claims(held map[netip.Addr]string) []Rival {
	all := c.Rivals(func(who Rival, one *Conflict) bool { return one.Here || held[who.IP] == "" })
	slices.SortStableFunc(all, func(a, b Rival) int { return cmp.Or(a.IP.Compare(b.IP), cmp.Compare(c[a].Node, c[b].Node)) })
	return slices.CompactFunc(all, func(a, b Rival) bool { return a.IP == b.IP })
}

// Recheck returns the addresses to probe for now, sorted, by link: those that no Service has and
// whose machines have been silent for a while. It marks them as asked.
func (c Conflicts) Recheck(now time.Time, services []Service) map[string][]netip.Addr {
	if len(c) == 0 {
		return nil
	}
	served, due := addressesOf(services), map[string][]netip.Addr{}
	for who, one := range c {
		if one.Link == "" || served[who.IP] || now.Sub(one.Heard) < recheckAfter || now.Sub(one.asked) < recheckAfter {
			continue
		}
		one.asked = now
		due[one.Link] = append(due[one.Link], who.IP)
	}
	for link, ips := range due {
		slices.SortFunc(ips, netip.Addr.Compare)
		due[link] = slices.Compact(ips)
	}
	return due
}

// Answered records the machines that answered on link at now. Another machine that answers is
// no new conflict: the address may belong to a Service on another node.
func (c Conflicts) Answered(now time.Time, link string, answers Answers) {
	for who, one := range c {
		if one.Link == link && slices.Contains(answers[who.IP], who.MAC) {
			one.Heard = now
		}
	}
}

// Problem summarizes, for other nodes and for people, the machines that have addresses of
// Services.
func (c Conflicts) Problem(services []Service) string {
	if len(c) == 0 {
		return ""
	}
	served := addressesOf(services)
	all := c.Rivals(func(who Rival, _ *Conflict) bool { return served[who.IP] })
	const most = 5
	var texts []string
	for _, who := range all[:min(len(all), most)] {
		texts = append(texts, fmt.Sprintf("%s on %s is claimed by another machine, %s", who.IP, c[who].Link, MACText(who.MAC)))
	}
	if len(all) > most {
		texts = append(texts, fmt.Sprintf("and %d more", len(all)-most))
	}
	return strings.Join(texts, "; ")
}

// Message describes to a person the conflict of node self with who.
func (c Conflicts) Message(self string, who Rival, peers election.Peers) string {
	one := c[who]
	if !one.Here {
		return Contest{Address: Address{Prefix: netip.PrefixFrom(who.IP, who.IP.BitLen()), Link: one.Link}, MAC: who.MAC}.Message(peers)
	}
	other, advice := describe(who.MAC, peers)
	return fmt.Sprintf("%s, which node %s has on %s, is claimed by %s: clients reach one or the other; %s", who.IP, self, one.Link, other, advice)
}

// describe says which machine has mac, and what to do if it answers for an address that it
// should not have.
func describe(mac [6]byte, peers election.Peers) (machine, advice string) {
	text := MACText(mac)
	name, ok := peers.MACs[mac]
	if !ok {
		return "another machine, " + text, "if this is no node of the cluster, give it another address, or exclude this one from the pool"
	}
	// kube-proxy in IPVS mode puts all addresses on kube-ipvs0 of every node.
	return fmt.Sprintf("node %s, %s", name, text),
		fmt.Sprintf("if node %s goes on answering, end another load balancer there, or set net.ipv4.conf.all.arp_ignore to 1, or strictARP of kube-proxy", name)
}

// MACText returns mac in the usual notation.
func MACText(mac [6]byte) string { return strings.ReplaceAll(fmt.Sprintf("% x", mac[:]), " ", ":") }
