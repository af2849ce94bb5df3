// Package ipamgrpc claims addresses from IPAM servers: programs in the allocator's pod that serve
// purelb.ipam.v1.IPAM on a Unix socket.
//
// Read group.go (what the allocator calls), allocate.go and answer.go (from claims to calls, from
// answers to grants), connection.go, and fault.go (the meaning of errors).
//
// The protocol identifies an allocation by the pool and the service, not by the key of a claim. The
// service is a part of the key: the Service, or the sharing key, in its namespace. This has two
// consequences. Both families of a Service are one allocation, so their claims are one call. And
// the protocol does not transmit the name of the cluster: a server for several clusters must know
// which of them uses a socket.
//
// Each group has a connection of its own, also if several groups are on one socket. The package keeps
// nothing else: no claim, no grant, no queue. It repeats no call by itself.
package ipamgrpc

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// Group is the backend of one ServiceGroup. It is safe for concurrent use, but the caller
// must not make concurrent calls for one Service.
type Group struct {
	connection *connection
	pool       string
	provider   string
}

// Open returns the backend of a ServiceGroup. pool is the name of the group in calls, and provider is
// the name of the server for people. Open dials nothing. The caller must close the backend.
func Open(socket, pool, provider string, observe Observer) (*Group, error) {
	c, err := newConnection(socket, observe)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to the IPAM server on %s: %w", socket, err)
	}
	return &Group{connection: c, pool: pool, provider: provider}, nil
}

// Close closes the connection. Calls in flight fail.
func (g *Group) Close() error { return g.connection.Close() }

// Release gives grants back, and answers in their order. It is no error if the server no longer holds
// a grant for the key. A grant without an address stands for everything that the server has for the
// holder of its key (see ipam.HolderOf), of both families. The caller gives that back when the Service is
// gone. Only then is it certain that no address remains from calls whose answers were lost or wrong.
func (g *Group) Release(ctx context.Context, grants []ipam.Grant) []error {
	errs := make([]error, len(grants))
	for i, grant := range grants {
		errs[i] = g.releaseGrant(ctx, grant)
	}
	return errs
}

func (g *Group) releaseGrant(ctx context.Context, grant ipam.Grant) error {
	if !grant.Address.IsValid() {
		return g.release(ctx, releaseAll, grant.Key, &ipamv1.ReleaseRequest{Target: &ipamv1.ReleaseRequest_All{All: true}})
	}
	return g.release(ctx, releaseOne, grant.Key, &ipamv1.ReleaseRequest{Target: &ipamv1.ReleaseRequest_Ip{Ip: grant.Address.String()}})
}

// release makes one call. If the server does not know the pool or the service, it holds no address
// for them.
func (g *Group) release(ctx context.Context, rpc method, key string, r *ipamv1.ReleaseRequest) error {
	r.Pool, r.Service = g.pool, ipam.HolderOf(key)
	if r.Service == "" {
		return badKey(key)
	}
	fault := g.connection.call(ctx, rpc, func(ctx context.Context, client ipamv1.IPAMClient) error {
		_, err := client.Release(ctx, r)
		return err
	})
	if fault == nil || status.Code(fault.Cause) == codes.NotFound {
		return nil
	}
	return fault
}

// Capacity returns how many addresses the server has for the group.
func (g *Group) Capacity(ctx context.Context) (ipam.Capacity, error) {
	var reply *ipamv1.StatsResponse
	fault := g.connection.call(ctx, statistics, func(ctx context.Context, client ipamv1.IPAMClient) (err error) {
		reply, err = client.Stats(ctx, &ipamv1.StatsRequest{Pool: g.pool})
		return err
	})
	if fault != nil {
		return ipam.Capacity{}, fault
	}
	capacity := ipam.Capacity{
		Backend: g.provider,
		Known:   reply.HasKnownCapacity,
		InUse:   map[addr.Family]uint64{addr.V4: reply.InUseV4, addr.V6: reply.InUseV6},
		Ranges:  ranges(reply.DisplayAddresses),
	}
	if capacity.Known {
		capacity.Size = map[addr.Family]uint64{addr.V4: reply.SizeV4, addr.V6: reply.SizeV6}
	}
	return capacity, nil
}

// mostRanges limits how many ranges are shown.
const mostRanges = 64

func ranges(shown []string) []string {
	var list []string
	for _, s := range shown {
		if len(list) == mostRanges {
			return append(list, "...")
		}
		if s = text(s); s != "" {
			list = append(list, s)
		}
	}
	return list
}

func badKey(key string) *ipam.Error {
	return &ipam.Error{Kind: ipam.KindInvalid, Message: "the key " + key + " of the claim names no Service"}
}
