package gobgp

import (
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/bgp/peering"
)

// pathBuilder builds paths. A path shares its attributes in memory with the path before it, if they are the
// same, as most are.
type pathBuilder struct {
	now    int64
	asn    uint32
	last   peering.Attributes
	common map[bgp.Family][]bgp.PathAttributeInterface
}

func (p *pathBuilder) path(r peering.Route) (*apiutil.Path, error) {
	family := bgpFamily(addr.FamilyOf(r.Prefix.Addr()))
	nlri, err := bgp.NewIPAddrPrefix(r.Prefix)
	if err != nil {
		return nil, fmt.Errorf("prefix %v: %w", r.Prefix, err)
	}
	if p.common == nil || !sameAttributes(p.last, r.Attributes) {
		p.last, p.common = r.Attributes, map[bgp.Family][]bgp.PathAttributeInterface{}
	}
	attrs := p.common[family]
	if attrs == nil {
		if attrs, err = attributesOf(r.Attributes, p.asn, family, nlri); err != nil {
			return nil, fmt.Errorf("prefix %v: %w", r.Prefix, err)
		}
		p.common[family] = attrs
	}
	return &apiutil.Path{Family: family, Nlri: nlri, Attrs: attrs, Age: p.now}, nil
}

// attributesOf sets an unspecified next hop: neighbors then get the address of their session.
// The prefix in the attribute is only a placeholder: GoBGP replaces it by the prefix of the
// path.
func attributesOf(a peering.Attributes, asn uint32, family bgp.Family, nlri bgp.NLRI) ([]bgp.PathAttributeInterface, error) {
	attrs := []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(bgp.BGP_ORIGIN_ATTR_TYPE_IGP)}
	if family == bgp.RF_IPv4_UC {
		hop, err := bgp.NewPathAttributeNextHop(netip.IPv4Unspecified())
		if err != nil {
			return nil, err
		}
		attrs = append(attrs, hop)
	} else {
		hop, err := bgp.NewPathAttributeMpReachNLRI(family, []bgp.PathNLRI{{NLRI: nlri}}, netip.IPv6Unspecified())
		if err != nil {
			return nil, err
		}
		attrs = append(attrs, hop)
	}
	if len(a.Communities) > 0 {
		attrs = append(attrs, bgp.NewPathAttributeCommunities(slices.Clone(a.Communities)))
	}
	if len(a.LargeCommunities)+len(a.Marks) > 0 {
		texts := slices.Concat(a.LargeCommunities, a.Marks)
		// There is no spare capacity: policies of several neighbors append to this slice.
		large := make([]*bgp.LargeCommunity, 0, len(texts))
		for _, text := range texts {
			c, err := bgp.ParseLargeCommunity(text)
			if err != nil {
				return nil, fmt.Errorf("large community %q: %w", text, err)
			}
			large = append(large, c)
		}
		attrs = append(attrs, bgp.NewPathAttributeLargeCommunities(large))
	}
	if a.MED != nil {
		attrs = append(attrs, bgp.NewPathAttributeMultiExitDisc(*a.MED))
	}
	if a.LocalPref != nil {
		attrs = append(attrs, bgp.NewPathAttributeLocalPref(*a.LocalPref))
	}
	if a.Weight > 0 {
		attrs = append(attrs, bgp.NewPathAttributeExtendedCommunities(bandwidth(a.Weight, asn)))
	}
	return slices.Clip(attrs), nil
}

// perEndpoint is the bandwidth that stands for one endpoint, in bytes per second: 1 Mbit/s.
// Routers only compare bandwidths. FRR keeps them in 32 bits, which is enough for 34,000
// endpoints.
const perEndpoint = 125_000

// bandwidth returns the link bandwidth of RFC 10005 in both forms, with the same value, because
// routers read one or the other. IOS XE reads the non-transitive form. Some versions of FRR 10
// use only the transitive form (FRRouting/frr#20607).
func bandwidth(weight, asn uint32) []bgp.ExtendedCommunityInterface {
	as := uint16(asTrans) // the field has no room for more
	if asn <= math.MaxUint16 {
		as = uint16(asn)
	}
	value := float32(weight) * perEndpoint
	return []bgp.ExtendedCommunityInterface{
		bgp.NewTwoOctetAsSpecificExtended(bgp.EC_SUBTYPE_LINK_BANDWIDTH, as, math.Float32bits(value), true),
		bgp.NewLinkBandwidthExtended(as, value),
	}
}

// asTrans stands for an AS number that does not fit (RFC 6793).
const asTrans = 23456
