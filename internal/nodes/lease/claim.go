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

// String returns m in the form 02:00:00:00:00:01.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// Claim is an address, and the MAC of a machine that claims it or answers for it.
type Claim struct {
	Addr netip.Addr
	MAC  MAC
	// Node is the node of the cluster that the machine was at the last observation, or "". The
	// Lease with the MACs of that node may have been deleted since.
	Node string
}

// String returns c in the form of the annotation. Releases that do not know the field Node skip
// a Claim that has one.
func (c Claim) String() string {
	text := c.Addr.String() + "=" + c.MAC.String()
	if c.Node != "" {
		text += "=" + c.Node
	}
	return text
}

// MACs returns the Ethernet addresses in o by which its node answers. known is false if the
// agent is of an earlier version, which does not write them.
func MACs(o *coordinationv1.Lease) (macs []MAC, known bool) {
	text, known := o.Annotations[AnnotationMACs]
	for part := range strings.SplitSeq(text, ",") {
		if m, ok := parseMAC(part); ok && len(macs) < maxMACs {
			macs = append(macs, m)
		}
	}
	return macs, known
}

// Claims returns the claims of other machines in o. It skips entries that it cannot parse.
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

// Heard is a Claim, and the time at which the machine was last heard.
type Heard struct {
	Claim
	At time.Time
}

// inheritedFor is how long the claims of an earlier agent of the node count after its last
// write. The allocator hands out none of these addresses. So a restart of the agent must
// not make them look free.
const inheritedFor = 10 * time.Minute

// inheritance holds the claims that the agent before this one wrote. The agent publishes them with
// its own claims while they count. After the agent has taken them over, its own record contains them.
type inheritance struct {
	claims []Heard
	// known means that our Lease was read. taken means that this agent has taken the claims, and
	// will publish them.
	known, taken bool
}

// read takes the claims from o, our Lease before the first write. The agent that wrote them used
// the clock of this machine. So a renewal time in the future means that the clock was set back.
func (i *inheritance) read(o *coordinationv1.Lease, now time.Time) {
	if i.known {
		return
	}
	i.known = true
	if o.Spec.RenewTime == nil {
		return // there is no Lease yet
	}
	at := now
	if renewed := o.Spec.RenewTime.Time; renewed.Before(now) {
		at = renewed
	}
	for _, c := range Claims(o) {
		if h := (Heard{c, at}); h.counts(now) {
			i.claims = append(i.claims, h)
		}
	}
}

func (h Heard) counts(now time.Time) bool { return now.Before(h.At.Add(inheritedFor)) }

// with returns claims, plus the inherited claims of other addresses that still count.
func (i *inheritance) with(claims []Claim, now time.Time) []Claim {
	all := slices.Clone(claims)
	for _, old := range i.claims {
		if old.counts(now) && !slices.ContainsFunc(claims, func(c Claim) bool { return c.Addr == old.Addr }) {
			all = append(all, old.Claim)
		}
	}
	return all
}

// Inherited returns the claims that earlier agents of this node wrote, after the Lease was
// read. It returns each claim once. The caller must Publish the claims that it takes.
func (l *Leases) Inherited() []Heard {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inherited.taken || !l.inherited.known {
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
