package lease

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// MAC is an Ethernet address.
type MAC [6]byte

// String is m as 02:00:00:00:00:01.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// Claim is an address that the machine with that MAC claims or answers for.
type Claim struct {
	Addr netip.Addr
	MAC  MAC
	// Node is the node of the cluster that the machine was when it was heard last, or "".
	// The Lease that tells the MACs of that node may be gone since.
	Node string
}

// String is c as an annotation has it. Releases that know no Node pass over a Claim of a
// node, which means nothing to them.
func (c Claim) String() string {
	text := c.Addr.String() + "=" + c.MAC.String()
	if c.Node != "" {
		text += "=" + c.Node
	}
	return text
}

// MACs returns the Ethernet addresses that o says its node answers by. It says
// nothing of them if its agent is of an earlier version.
func MACs(o *coordinationv1.Lease) (macs []MAC, said bool) {
	text, said := o.Annotations[AnnotationMACs]
	for part := range strings.SplitSeq(text, ",") {
		if m, ok := parseMAC(part); ok && len(macs) < maxMACs {
			macs = append(macs, m)
		}
	}
	return macs, said
}

// Claims returns what o says was heard of other machines. What cannot be read is
// passed over.
func Claims(o *coordinationv1.Lease) []Claim {
	var claims []Claim
	for part := range strings.SplitSeq(o.Annotations[AnnotationClaims], ",") {
		address, machine, _ := strings.Cut(strings.TrimSpace(part), "=")
		mac, node, _ := strings.Cut(machine, "=")
		a, err := netip.ParseAddr(address)
		m, ok := parseMAC(mac)
		if err == nil && ok && len(claims) < MaxClaims {
			claims = append(claims, Claim{a.Unmap().WithZone(""), m, node})
		}
	}
	return claims
}

// Heard is a Claim, and when the machine was heard last.
type Heard struct {
	Claim
	At time.Time
}

// inheritedFor is how long claims count that the agent before this one on the node
// has written last. The allocator hands out none of these addresses, so it must not
// take a restart of the agent for news that they are free.
const inheritedFor = 10 * time.Minute

// inheritance is what other agents of this node, before this one or beside it during a
// rollout, heard of other machines. It counts until this agent goes on with it: then
// what it publishes has these claims, as long as they count.
type inheritance struct {
	// written says that a write of this agent has succeeded. What our Lease says of
	// this pod from then on is from this agent itself.
	written bool
	claims  []Heard
	// taken says that this agent has the claims, and will publish them.
	taken bool
}

// read takes over the claims of o, our Lease as it was found. The agent that wrote them
// used the clock of this machine, so a time in the future means that the clock was set
// back.
func (i *inheritance) read(o *coordinationv1.Lease, self string, now time.Time) {
	if o.Spec.RenewTime == nil || i.written && o.Annotations[AnnotationInstance] == self {
		return
	}
	at := now
	if renewed := o.Spec.RenewTime.Time; renewed.Before(now) {
		at = renewed
	}
	i.claims = slices.DeleteFunc(i.claims, func(h Heard) bool { return !h.counts(now) })
	for _, c := range Claims(o) {
		i.claims = slices.DeleteFunc(i.claims, func(h Heard) bool { return h.Addr == c.Addr && h.MAC == c.MAC })
		if h := (Heard{c, at}); h.counts(now) && len(i.claims) < 2*MaxClaims {
			i.claims, i.taken = append(i.claims, h), false
		}
	}
}

func (h Heard) counts(now time.Time) bool { return now.Before(h.At.Add(inheritedFor)) }

// with returns claims, and those inherited of other addresses while they count.
func (i *inheritance) with(claims []Claim, now time.Time) []Claim {
	all := slices.Clone(claims)
	for _, old := range i.claims {
		if old.counts(now) && !slices.ContainsFunc(claims, func(c Claim) bool { return c.Addr == old.Addr }) {
			all = append(all, old.Claim)
		}
	}
	return all
}

// Inherited returns what agents of this node before this one heard of other machines, once
// that is known, and each claim once. Whoever takes the claims has to Publish them.
func (l *Leases) Inherited() []Heard {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inherited.taken {
		return nil
	}
	l.inherited.taken = true
	return slices.Clone(l.inherited.claims)
}

func parseMAC(text string) (MAC, bool) {
	m, err := net.ParseMAC(strings.TrimSpace(text))
	if err != nil || len(m) != len(MAC{}) {
		return MAC{}, false
	}
	return MAC(m), true
}
