package ipamserver

import (
	"fmt"
	"net/netip"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
)

// keyOf returns the key of a claim in NetBox. service is one name without a slash.
func keyOf(space, service string, f addr.Family) string {
	return fmt.Sprintf("%s/%s/v%d", space, service, f)
}

// claimsOf returns the claims of a request: one for each family. It also says what is wrong
// with the request, or "".
func claimsOf(space string, r *ipamv1.AllocateRequest) (claims []ipam.Claim, problem string) {
	if r.GetService() == "" {
		return nil, "the request names no service"
	}
	claim := func(f addr.Family, a netip.Addr) {
		claims = append(claims, ipam.Claim{Key: keyOf(space, r.GetService(), f), Group: r.GetPool(), Service: r.GetService(),
			SharingKey: r.GetSharingKey(), Family: f, Address: a})
	}
	seen := map[addr.Family]bool{}
	for _, text := range r.GetExplicit().GetIps() {
		a, problem := readAddress(text)
		f := addr.FamilyOf(a)
		switch {
		case problem != "":
			return nil, problem
		case seen[f]:
			return nil, fmt.Sprintf("the request names two %s addresses: name one", f)
		}
		seen[f] = true
		claim(f, a)
	}
	if r.GetFamilies().GetWantIpv4() {
		claim(addr.V4, netip.Addr{})
	}
	if r.GetFamilies().GetWantIpv6() {
		claim(addr.V6, netip.Addr{})
	}
	if len(claims) == 0 {
		return nil, "the request names no address and no family"
	}
	return claims, ""
}

// grantsOf returns what a request gives back. A grant without an address means everything
// that NetBox has for its key.
func grantsOf(space string, r *ipamv1.ReleaseRequest) (grants []ipam.Grant, problem string) {
	switch {
	case r.GetService() == "":
		return nil, "the request names no service"
	case r.GetAll():
		return []ipam.Grant{{Key: keyOf(space, r.GetService(), addr.V4)}, {Key: keyOf(space, r.GetService(), addr.V6)}}, ""
	}
	a, problem := readAddress(r.GetIp())
	if problem != "" {
		return nil, problem
	}
	return []ipam.Grant{{Key: keyOf(space, r.GetService(), addr.FamilyOf(a)), Address: a}}, ""
}

func readAddress(text string) (a netip.Addr, problem string) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return a, fmt.Sprintf("%q is not an IP address without a zone", text)
	}
	return a.Unmap(), ""
}
