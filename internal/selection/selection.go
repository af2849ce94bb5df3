// Package selection decides which addresses a Service gets, or why it gets
// none.
//
// It knows the groups, who holds what, and the networks of the nodes, all as
// values that it reads and does not change. It knows nothing of the API server,
// and nothing of time: the same arguments give the same choice.
package selection

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/service"
)

// Cluster is what a choice depends on beside the Service.
type Cluster struct {
	Config config.Config
	// Book is who holds what. It may be ahead of a Service's status, by what
	// was chosen and is not written yet.
	Book *pool.Book
	// Sharing are the sharing keys of Services in the Book, of those that
	// have one.
	Sharing map[pool.Owner]string
	// Subnets are the networks that nodes announce local addresses of.
	Subnets []netip.Prefix
}

// Choice is what becomes of a Service.
type Choice struct {
	Result service.Result
	// ClusterPolicy says that the external traffic policy must be Cluster,
	// and is not: one node has a local address, and takes all its traffic.
	ClusterPolicy bool
	// Refusal is why the Service does not get all that it wants, or nil.
	Refusal *Refusal
	// Notes are what its owner should know about addresses that are new.
	Notes []Note
}

// Refusal is why something was not given.
type Refusal struct {
	// Metric is the reason, and Pool the group, that the refusal counts for.
	Metric, Pool string
	// Reason and Message are for the Service's condition.
	Reason, Message string
}

// Note is an event to report.
type Note struct {
	Reason, Message string
}

// Reasons of the condition of a Service.
const (
	ReasonAllocated  = "Allocated"
	ReasonPartial    = "PartiallyAllocated"
	ReasonConflict   = "AddressConflict"
	ReasonDeleting   = "Deleting"
	ReasonExhausted  = "Exhausted"
	ReasonUnknown    = "UnknownPool"
	ReasonNoPool     = "NoUsablePool"
	ReasonInUse      = "AddressInUse"
	ReasonOutside    = "AddressOutsidePools"
	ReasonReserved   = "AddressReserved"
	ReasonBadRequest = "InvalidRequest"
)

// Choose decides about the Service of r, which is ours.
//
// A Service keeps what it has, whatever the configuration says now; only what
// it misses is chosen, lowest first.
func (c Cluster) Choose(r service.Request) Choice {
	kept, conflict := c.keep(r)
	fresh, refusal := c.fill(r, kept)
	addresses := inOrder(r, kept, fresh)
	choice := Choice{
		Result:        c.result(r, addresses),
		ClusterPolicy: r.LocalPolicy && !r.Leaving && slices.ContainsFunc(addresses, c.local),
		Refusal:       refusal,
		Notes:         c.notes(r, addresses),
	}
	choice.Result.Allocated, choice.Result.Reason, choice.Result.Message = verdict(r, choice.Result, refusal, conflict)
	return choice
}

// keep returns the addresses that stay with the Service of r, and says whether
// one of them is somebody else's too, be it a node's.
//
// The Book is right where it disagrees with the status: an address in a status
// that was edited by hand was not allocated, and one that is missing there may
// not have been written yet. A family of which the Book has nothing for the
// Service is one that was allocated by an earlier allocator.
func (c Cluster) keep(r service.Request) (kept []netip.Addr, conflict string) {
	mine := c.Book.Held(pool.Owner(r.Key()))
	for _, f := range r.Families {
		held, booked := ofFamily(r.Held, f), ofFamily(mine, f)
		both := slices.DeleteFunc(slices.Clone(held), func(a netip.Addr) bool { return !slices.Contains(booked, a) })
		switch {
		case len(booked) == 0:
			kept = append(kept, held...)
		case len(both) == 0:
			kept = append(kept, booked...)
		default:
			kept = append(kept, both...)
		}
	}
	for _, a := range kept {
		if why, blocked := c.Book.Blocked(a); blocked {
			return kept, fmt.Sprintf("%s is also an %s, so no node announces it; take it off that node, or change the type of the Service to "+
				"ClusterIP and back to get it another address", a, why)
		}
		if by, taken := c.Book.Owner(a); taken && by != pool.Owner(r.Key()) && !c.shares(r, by) {
			return kept, a.String() + " is also held by " + string(by) +
				", which had it first; delete one of the two Services, or empty its status.loadBalancer, to get it another address"
		}
	}
	return kept, ""
}

// shares reports whether the Service of r and other have the same sharing key,
// so that an address which they both hold is one that they were given to share.
func (c Cluster) shares(r service.Request, other pool.Owner) bool {
	return r.SharingKey != "" && c.Sharing[other] == r.SharingKey
}

// local reports whether a is announced by one node only: a is in the subnet of
// a node, or its group is for such addresses.
func (c Cluster) local(a netip.Addr) bool {
	if slices.ContainsFunc(c.Subnets, func(s netip.Prefix) bool { return s.Contains(a) }) {
		return true
	}
	g, _, ok := c.Config.GroupOf(a)
	return ok && g.Announce == config.AnnounceLocal
}

// inOrder returns kept and fresh in the order of the families of r.
func inOrder(r service.Request, kept, fresh []netip.Addr) []netip.Addr {
	var addresses []netip.Addr
	for _, f := range r.Families {
		addresses = append(addresses, ofFamily(kept, f)...)
		addresses = append(addresses, ofFamily(fresh, f)...)
	}
	return addresses
}

func ofFamily(addresses []netip.Addr, f addr.Family) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool { return addr.FamilyOf(a) != f })
}

// join writes addresses for a person.
func join(addresses []netip.Addr) string {
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}
