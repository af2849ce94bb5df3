package ipamgrpc

import (
	"context"
	"net/netip"
	"slices"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// numbered is a claim and its position in the call.
type numbered struct {
	ipam.Claim
	index int
}

// Claim answers the claims of one holder (see ipam.HolderOf) in their order. On the server they are one
// allocation. One call asks either for named addresses or for families, so Claim may need two calls.
func (g *Group) Claim(ctx context.Context, claims []ipam.Claim) []ipam.Answer {
	answers := make([]ipam.Answer, len(claims))
	var granted []netip.Addr
	for _, part := range parts(claims) {
		for i, a := range g.allocate(ctx, part, granted) {
			answers[part[i].index] = a
			if a.Err == nil {
				granted = append(granted, a.Grant.Address)
			}
		}
	}
	for i := range answers {
		answers[i].Surplus = addr.Without(answers[i].Surplus, granted)
	}
	return answers
}

// parts returns the claims of each call: first those for named addresses, then the others.
func parts(claims []ipam.Claim) [][]numbered {
	var named, free []numbered
	for i, c := range claims {
		if c.Address.IsValid() {
			named = append(named, numbered{c, i})
		} else {
			free = append(free, numbered{c, i})
		}
	}
	return slices.DeleteFunc([][]numbered{named, free}, func(c []numbered) bool { return len(c) == 0 })
}

// allocate makes one call. The addresses in granted already belong to the holder, and may be in the
// answer too.
func (g *Group) allocate(ctx context.Context, claims []numbered, granted []netip.Addr) []ipam.Answer {
	request, rpc := request(claims)
	request.Pool, request.Service, request.SharingKey = g.pool, ipam.HolderOf(claims[0].Key), claims[0].SharingKey
	if request.Service == "" {
		return refuse(claims, badKey(claims[0].Key))
	}
	var reply *ipamv1.AllocateResponse
	fault := g.connection.call(ctx, rpc, func(ctx context.Context, client ipamv1.IPAMClient) (err error) {
		reply, err = client.Allocate(ctx, request)
		return err
	})
	if fault != nil {
		return refuse(claims, fault)
	}
	var texts []string
	for _, ip := range reply.Ips {
		texts = append(texts, ip.GetIp())
	}
	return g.connection.read(claims, granted, texts)
}

// request returns the request for the claims of one call.
func request(claims []numbered) (*ipamv1.AllocateRequest, method) {
	if claims[0].Address.IsValid() {
		var ips ipamv1.ExplicitIPs
		for _, c := range claims {
			ips.Ips = append(ips.Ips, c.Address.String())
		}
		return &ipamv1.AllocateRequest{Selector: &ipamv1.AllocateRequest_Explicit{Explicit: &ips}}, allocateExplicit
	}
	var families ipamv1.FamilyRequest
	for _, c := range claims {
		families.WantIpv4 = families.WantIpv4 || c.Family == addr.V4
		families.WantIpv6 = families.WantIpv6 || c.Family == addr.V6
	}
	return &ipamv1.AllocateRequest{Selector: &ipamv1.AllocateRequest_Families{Families: &families}}, allocateFamilies
}

// refuse answers all claims of a call with one error.
func refuse(claims []numbered, fault *ipam.Error) []ipam.Answer {
	answers := make([]ipam.Answer, len(claims))
	for i := range answers {
		answers[i].Err = fault
	}
	return answers
}
