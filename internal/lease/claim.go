package lease

import (
	"net"
	"net/netip"
	"strings"

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

func parseMAC(text string) (MAC, bool) {
	m, err := net.ParseMAC(strings.TrimSpace(text))
	if err != nil || len(m) != len(MAC{}) {
		return MAC{}, false
	}
	return MAC(m), true
}
