package ipamgrpc

import (
	"context"
	"net/netip"
	"slices"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// holder has the claims of one Service, or of the Services that share by one key.
type holder struct {
	service    string
	sharingKey string
	claims     []numbered
}

// numbered is a claim and its position in the call.
type numbered struct {
	ipam.Claim
	index int
}

// holders groups claims by their holder (see ipam.HolderOf), in the order of their first
// claims.
func holders(claims []ipam.Claim) []holder {
	var list []holder
	place := map[string]int{}
	for i, c := range claims {
		service := ipam.HolderOf(c.Key)
		at, known := place[service]
		if !known {
			at = len(list)
			place[service] = at
			list = append(list, holder{service: service, sharingKey: c.SharingKey})
		}
		list[at].claims = append(list[at].claims, numbered{c, i})
	}
	return list
}

// allocate makes the calls for one holder and stores the answers at their positions. One
// call asks either for named addresses or for families, so allocate may need two calls.
func (g *Group) allocate(ctx context.Context, h holder, answers []ipam.Answer) {
	var granted []netip.Addr
	for _, claims := range h.calls() {
		for i, a := range g.allocateOnce(ctx, h, claims, granted) {
			answers[claims[i].index] = a
			if a.Err == nil {
				granted = append(granted, a.Grant.Address)
			}
		}
	}
	for _, c := range h.claims {
		answers[c.index].Surplus = without(answers[c.index].Surplus, granted)
	}
}

// calls returns the claims of each call: first those for named addresses, then the others.
func (h holder) calls() [][]numbered {
	var named, free []numbered
	for _, c := range h.claims {
		if c.Address.IsValid() {
			named = append(named, c)
		} else {
			free = append(free, c)
		}
	}
	return slices.DeleteFunc([][]numbered{named, free}, func(c []numbered) bool { return len(c) == 0 })
}

// allocateOnce makes one call. The addresses in granted already belong to the holder, and
// may be in the answer too.
func (g *Group) allocateOnce(ctx context.Context, h holder, claims []numbered, granted []netip.Addr) []ipam.Answer {
	if h.service == "" {
		return refuse(claims, badKey(claims[0].Key))
	}
	request, rpc := request(claims)
	request.Pool, request.Service, request.SharingKey = g.pool, h.service, h.sharingKey
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
