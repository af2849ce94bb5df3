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
}

// String is c as an annotation has it.
func (c Claim) String() string { return c.Addr.String() + "=" + c.MAC.String() }

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
		address, mac, _ := strings.Cut(strings.TrimSpace(part), "=")
		a, err := netip.ParseAddr(address)
		m, ok := parseMAC(mac)
		if err == nil && ok && len(claims) < MaxClaims {
			claims = append(claims, Claim{a.Unmap().WithZone(""), m})
		}
	}
	return claims
}

// inheritedFor is how long claims count that the agent before this one on the node
// has written last. The allocator hands out none of these addresses, so it must not
// take a restart of the agent for news that they are free.
const inheritedFor = 10 * time.Minute

// inheritance is what the agent before this one on the node heard of other machines.
type inheritance struct {
	known  bool // whether our Lease has been read
	claims []Claim
	until  time.Time
}

// read takes over the claims of o, our Lease as the agent before left it. That agent
// used the clock of this machine, so a time in the future means that the clock was set
// back.
func (i *inheritance) read(o *coordinationv1.Lease, now time.Time) {
	if i.known {
		return
	}
	i.known = true
	if o.Spec.RenewTime == nil {
		return
	}
	i.claims, i.until = Claims(o), now.Add(inheritedFor)
	if renewed := o.Spec.RenewTime.Time; renewed.Before(now) {
		i.until = renewed.Add(inheritedFor)
	}
}

// with returns claims, and those inherited of other addresses while they count.
func (i *inheritance) with(claims []Claim, now time.Time) []Claim {
	if !now.Before(i.until) {
		return claims
	}
	all := slices.Clone(claims)
	for _, old := range i.claims {
		if !slices.ContainsFunc(claims, func(c Claim) bool { return c.Addr == old.Addr }) {
			all = append(all, old)
		}
	}
	return all
}

func parseMAC(text string) (MAC, bool) {
	m, err := net.ParseMAC(strings.TrimSpace(text))
	if err != nil || len(m) != len(MAC{}) {
		return MAC{}, false
	}
	return MAC(m), true
}
