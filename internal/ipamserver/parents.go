package ipamserver

import (
	"fmt"
	"net/netip"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/netbox"
)

// parentOf reads a prefix or an IP range, and says what is wrong with it, or "".
func parentOf(w v2.NetboxParent) (p netbox.Parent, problem string) {
	given := 0
	for _, so := range []bool{w.PrefixID != 0, w.RangeID != 0, w.Prefix != nil, w.Range != nil} {
		if so {
			given++
		}
	}
	switch {
	case given != 1:
		return p, fmt.Sprintf("%d of prefixID, rangeID, prefix and range are written here: write one of them", given)
	case w.Prefix != nil:
		p = described(netbox.Prefix, w.Prefix.NetboxTraits)
		p.Site = string(w.Prefix.Site)
		return p, readCIDR(w.Prefix.CIDR, &p.Prefix)
	case w.Range != nil:
		p = described(netbox.Range, w.Range.NetboxTraits)
		return p, readStart(w.Range.Start, &p.Start)
	case w.RangeID != 0:
		return netbox.Parent{Kind: netbox.Range, ID: w.RangeID}, ""
	}
	return netbox.Parent{Kind: netbox.Prefix, ID: w.PrefixID}, ""
}

func described(kind netbox.ParentKind, by v2.NetboxTraits) netbox.Parent {
	return netbox.Parent{Kind: kind, VRF: by.VRF, Role: string(by.Role), Tag: string(by.Tag), Tenant: string(by.Tenant)}
}

func readCIDR(text string, into *netip.Prefix) (problem string) {
	if text == "" {
		return ""
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return fmt.Sprintf("the cidr %q is not a prefix: write it as 192.0.2.0/24 or 2001:db8::/64", text)
	}
	*into = prefix
	return ""
}

func readStart(text string, into *netip.Addr) (problem string) {
	if text == "" {
		return ""
	}
	start, err := netip.ParseAddr(text)
	if err != nil || start.Zone() != "" || start.Is4In6() {
		return fmt.Sprintf("the start %q is not an IP address: write the first one of the IP range, such as 192.0.2.10", text)
	}
	*into = start
	return ""
}
