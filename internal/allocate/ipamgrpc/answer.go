package ipamgrpc

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// mostAddresses is the maximum number of addresses in an answer.
const mostAddresses = 16

// read turns the addresses in a server's answer into grants for the claims of one call. The
// addresses in granted already belong to the holder.
//
// A claim gets the one address that matches it. If several addresses match, the claim gets none,
// because the Service may already use any of them, and a choice could remove that address. An
// address that no claim gets is surplus. If one address is invalid, the whole answer is invalid.
func (c *connection) read(claims []numbered, granted []netip.Addr, texts []string) []ipam.Answer {
	found, problem := parse(texts)
	if problem != "" {
		answers := refuse(claims, c.fault(ipam.KindUnknown, nil, "answers Allocate wrongly: %s", problem))
		answers[0].Surplus = addr.Without(found, granted)
		return answers
	}
	answers := make([]ipam.Answer, len(claims))
	for i, claim := range claims {
		if fitting := fitting(claim.Claim, found); len(fitting) == 1 {
			answers[i].Grant = ipam.Grant{Key: claim.Key, Address: fitting[0]}
			granted = append(granted, fitting[0])
		}
	}
	surplus := addr.Without(found, granted)
	for i, claim := range claims {
		if answers[i].Grant.Key == "" {
			answers[i].Err = c.unanswered(claim.Claim, fitting(claim.Claim, found), surplus)
		}
	}
	answers[0].Surplus = surplus
	return answers
}

// parse reads the addresses of an answer, without repetitions, and says what is wrong with
// them.
func parse(texts []string) (found []netip.Addr, problem string) {
	if len(texts) > mostAddresses {
		return nil, fmt.Sprintf("%d addresses, and at most %d are allowed", len(texts), mostAddresses)
	}
	var problems []string
	for _, s := range texts {
		a, err := netip.ParseAddr(s)
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("%q is no IP address", s))
		case a.Zone() != "" || a.Is4In6():
			problems = append(problems, fmt.Sprintf("%q must be without a zone, and as IPv4 if it is IPv4", s))
		case !addr.Assignable(a):
			problems = append(problems, fmt.Sprintf("no Service can have the address %s", a))
		case !slices.Contains(found, a):
			found = append(found, a)
		}
	}
	return found, text(strings.Join(problems, "; "))
}

// fitting returns the addresses that match a claim.
func fitting(c ipam.Claim, found []netip.Addr) []netip.Addr {
	var list []netip.Addr
	for _, a := range found {
		if a == c.Address || !c.Address.IsValid() && addr.FamilyOf(a) == c.Family {
			list = append(list, a)
		}
	}
	return list
}

// unanswered returns the error for a claim that gets nothing from an answer. If the answer has no
// address at all, the server has none for the claim.
func (c *connection) unanswered(claim ipam.Claim, fitting, surplus []netip.Addr) *ipam.Error {
	wanted := "an " + claim.Family.String() + " address"
	if claim.Address.IsValid() {
		wanted = claim.Address.String()
	}
	switch {
	case len(fitting) > 1:
		return c.fault(ipam.KindUnknown, nil, "answers Allocate wrongly: asked for %s, it gives %s; it must give one", wanted, addr.Join(fitting, ", "))
	case len(surplus) > 0:
		return c.fault(ipam.KindUnknown, nil, "answers Allocate wrongly: asked for %s, it gives %s", wanted, addr.Join(surplus, ", "))
	}
	return c.fault(ipam.KindExhausted, nil, "answers Allocate without %s", wanted)
}
