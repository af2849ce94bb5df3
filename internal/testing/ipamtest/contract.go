// Package ipamtest is the contract test of the backends. It checks the rules for every driver that
// claims addresses for the allocator, whatever system answers.
//
// The contract knows no protocol. The test of a driver supplies the server, and a way to lose one of its
// answers. Server is one for all tests of what uses an IPAM server.
package ipamtest

import (
	"context"
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// Driver is what the allocator needs of a backend for one group.
type Driver interface {
	// Claim answers the claims of one holder in their order.
	Claim(ctx context.Context, claims []ipam.Claim) []ipam.Answer
	// Release gives grants back and answers in their order. Releasing a grant that no longer exists
	// is no error. A grant without an address stands for everything of its holder.
	Release(ctx context.Context, grants []ipam.Grant) []error
	// Capacity says how many addresses the group has and how many are in use.
	Capacity(ctx context.Context) (ipam.Capacity, error)
}

// Backend is a server with the addresses of one group. At first all of them are free.
type Backend interface {
	// Driver returns a new driver for a cluster. It has no memory, like the driver of an
	// allocator that has just started.
	Driver(cluster string) Driver
	// Addresses are all addresses that the server can grant, 4 to 64 in each family.
	Addresses(f addr.Family) []netip.Addr
	// LoseAnswer makes the server execute the next request that changes something, but lose the
	// answer to it.
	LoseAnswer()
}

// Contract tests the drivers of a backend. Each case opens its own backend.
func Contract(t *testing.T, open func(t *testing.T) Backend) {
	for _, c := range contract {
		t.Run(c.name, func(t *testing.T) {
			if err := c.check(t.Context(), open(t)); err != nil {
				t.Error(err)
			}
		})
	}
}

// contract lists the rules.
var contract = []struct {
	name  string
	check func(ctx context.Context, b Backend) error
}{
	{"a repeated claim gets the same address", repeated},
	{"each claim of a call gets its own address of its family", families},
	{"a named address is granted", named},
	{"a named address that another claim holds is taken", taken},
	{"a named address of another network is invalid", outside},
	{"claims beyond the free addresses are refused", exhausted},
	{"a released address is free", released},
	{"a grant can be released twice", releasedTwice},
	{"a release takes only the address of its own claim", stale},
	{"a claim whose answer was lost is claimed once", lostClaim},
	{"a release whose answer was lost is repeated", lostRelease},
	{"two clusters have two claims", clusters},
	{"concurrent claims get different addresses", concurrent},
	{"concurrent repetitions of a claim get one address", concurrentRepetitions},
	{"the capacity is counted", capacity},
}
