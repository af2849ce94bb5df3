package lease

import (
	"net"
	"net/netip"
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
	return list(text, maxMACs, parseMAC), known
}

// Claims returns the claims of other machines in o. It skips entries that it cannot parse.
func Claims(o *coordinationv1.Lease) []Claim {
	return list(o.Annotations[AnnotationClaims], MaxClaims, parseClaim)
}

func parseClaim(text string) (Claim, bool) {
	address, machine, _ := strings.Cut(text, "=")
	mac, node, _ := strings.Cut(machine, "=")
	a, ok := parseAddress(address)
	m, ok2 := parseMAC(mac)
	return Claim{a, m, node}, ok && ok2
}

// Heard is a Claim, and the time at which the machine was last heard.
type Heard struct {
	Claim
	At time.Time
}

// Inherited returns the claims that the agent before this one wrote. known is false until our Lease was
// read. These claims stay in the Lease until a published Record has Claims: the allocator hands out none of
// these addresses, and a restart of the agent must not make them look free.
func (l *Leases) Inherited() (claims []Heard, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inherited, l.known
}

// inherit returns the claims in o, our Lease before the first write. The agent that wrote them used the
// clock of this machine. So a renewal time in the future means that the clock was set back.
func inherit(o *coordinationv1.Lease, now time.Time) (claims []Heard) {
	if o.Spec.RenewTime == nil {
		return nil // there is no Lease yet
	}
	at := now
	if renewed := o.Spec.RenewTime.Time; renewed.Before(now) {
		at = renewed
	}
	for _, c := range Claims(o) {
		claims = append(claims, Heard{c, at})
	}
	return claims
}

func parseMAC(text string) (MAC, bool) {
	m, err := net.ParseMAC(strings.TrimSpace(text))
	if err != nil || len(m) != len(MAC{}) {
		return MAC{}, false
	}
	return MAC(m), true
}
