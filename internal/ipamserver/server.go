// Package ipamserver serves purelb.ipam.v1.IPAM with addresses of NetBox, which internal/netbox
// claims. It knows nothing of Kubernetes. It keeps no state on disk: NetBox stores the keys of the
// claims with the addresses. A pool and a service have one key for each family. So they never have
// two addresses of one family, even if a call, this program or NetBox fails.
//
// Three cases need care:
//
//	an answer of NetBox is lost   the call is answered with UNKNOWN, and its repetition finds
//	                              what was claimed
//	PureLB gives up a call        the call continues until NetBox has answered, and calls for
//	                              the same service wait: a release finds what the call claimed
//	a part cannot be given        the call gives back what it has just claimed
//
// Read config.go (the configuration), source.go and pool.go (NetBox), server.go (the calls),
// claims.go (from requests to the driver's claims), codes.go (errors), serve.go (the socket).
package ipamserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/netbox"
)

// patience limits the work of a call. It is longer than PureLB waits: NetBox finishes the request,
// and the repeated call finds the result.
const patience = time.Minute

// Server answers calls for its pools.
type Server struct {
	ipamv1.UnimplementedIPAMServer
	pools   map[string]*pool
	holders locks
	log     *slog.Logger
}

// New returns a server of the pools of c. It asks NetBox nothing before the first call.
func New(c Config, log *slog.Logger) *Server { return newServer(c, log, netbox.New) }

func newServer(c Config, log *slog.Logger, dial func(netbox.Config) (*netbox.Client, error)) *Server {
	s := &Server{pools: map[string]*pool{}, holders: locks{held: map[string]*lock{}}, log: log}
	connections := map[Source]*connection{}
	for name, p := range c.Pools {
		if connections[p.Source] == nil {
			connections[p.Source] = &connection{source: p.Source, dial: dial}
		}
		s.pools[name] = &pool{group: p.Group, connection: connections[p.Source], log: log}
	}
	return s
}

// Allocate claims addresses. If NetBox already holds addresses for the service, these are the
// answer, and PureLB gives back the addresses that it did not request.
func (s *Server) Allocate(ctx context.Context, r *ipamv1.AllocateRequest) (*ipamv1.AllocateResponse, error) {
	p := s.pools[r.GetPool()]
	if p == nil {
		return nil, status.Error(codes.NotFound, unknownPool(r.GetPool()))
	}
	claims, problem := claimsOf(p.group.Cluster, r)
	if problem != "" {
		return nil, status.Error(codes.InvalidArgument, problem)
	}
	reply := &ipamv1.AllocateResponse{}
	err := s.work(ctx, p, r.GetService(), func(ctx context.Context, ready *netbox.Pool) *ipam.Error {
		ips, fresh, err := allocate(ctx, ready, claims)
		if err != nil {
			return err
		}
		if fresh {
			s.log.InfoContext(ctx, "allocated", "pool", r.GetPool(), "service", r.GetService(), "addresses", ips)
		}
		for _, ip := range ips {
			reply.Ips = append(reply.Ips, &ipamv1.AllocatedIP{Ip: ip.String()})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return reply, nil
}

// allocate claims all addresses or none. fresh says that it claimed something new.
//
// It gives addresses back only after a refusal, which is answered at once. After a fault it may be
// too late: the server of the present leader may have answered with the address in the meantime.
func allocate(ctx context.Context, ready *netbox.Pool, claims []ipam.Claim) (ips []netip.Addr, fresh bool, failure *ipam.Error) {
	var errs []error
	var made []ipam.Grant
	for _, a := range ready.Claim(ctx, claims) {
		switch held := heldInstead(a); {
		case len(held) > 0:
			ips = append(ips, held...)
		case a.Err != nil:
			errs = append(errs, a.Err)
		default:
			ips = append(ips, a.Grant.Address)
		}
		if a.New {
			made = append(made, a.Grant)
		}
	}
	if failure = worst(errs); failure == nil || len(made) == 0 {
		return ips, len(made) > 0, failure
	}
	if !refuses(failure.Kind) {
		return nil, false, halfDone(failure, made[0])
	}
	if err := worst(ready.Release(ctx, made)); err != nil {
		return nil, false, halfDone(failure, made[0])
	}
	return nil, false, failure
}

// halfDone changes failure if a part was claimed. PureLB then repeats the call, and the repeated
// call finds that part.
func halfDone(failure *ipam.Error, made ipam.Grant) *ipam.Error {
	return &ipam.Error{Kind: ipam.KindUnknown, Cause: failure,
		Message: fmt.Sprintf("%s is claimed, and the rest is not: %s", made.Address, failure.Message)}
}

// heldInstead returns the addresses that NetBox holds although the claim asks for another one, and
// addresses that are no longer in the pool.
func heldInstead(a ipam.Answer) []netip.Addr {
	if a.Err == nil || ipam.AsError(a.Err).Kind != ipam.KindInvalid {
		return nil
	}
	return a.Surplus
}

// Release gives addresses of a service back.
func (s *Server) Release(ctx context.Context, r *ipamv1.ReleaseRequest) (*ipamv1.ReleaseResponse, error) {
	p := s.pools[r.GetPool()]
	if p == nil {
		// NOT_FOUND would say that nothing is held.
		return nil, status.Error(codes.FailedPrecondition, unknownPool(r.GetPool()))
	}
	grants, problem := grantsOf(p.group.Cluster, r)
	if problem != "" {
		return nil, status.Error(codes.InvalidArgument, problem)
	}
	err := s.work(ctx, p, r.GetService(), func(ctx context.Context, ready *netbox.Pool) *ipam.Error {
		if err := worst(ready.Release(ctx, grants)); err != nil {
			return err
		}
		s.log.InfoContext(ctx, "released", "pool", r.GetPool(), "service", r.GetService(), "address", r.GetIp(), "all", r.GetAll())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &ipamv1.ReleaseResponse{}, nil
}

// Stats counts the addresses of a pool. Addresses of other users of NetBox are counted as in use.
func (s *Server) Stats(ctx context.Context, r *ipamv1.StatsRequest) (*ipamv1.StatsResponse, error) {
	p := s.pools[r.GetPool()]
	if p == nil {
		return nil, status.Error(codes.NotFound, unknownPool(r.GetPool()))
	}
	ready, err := p.prepare(ctx)
	if err != nil {
		return nil, statusOf(ipam.AsError(err))
	}
	c, err := ready.Capacity(ctx)
	if err != nil {
		p.note(ipam.AsError(err))
		return nil, statusOf(ipam.AsError(err))
	}
	return &ipamv1.StatsResponse{
		InUseV4: c.InUse[addr.V4], InUseV6: c.InUse[addr.V6],
		SizeV4: c.Size[addr.V4], SizeV6: c.Size[addr.V6],
		HasKnownCapacity: c.Known, DisplayAddresses: c.Ranges,
	}, nil
}

func unknownPool(name string) string {
	return fmt.Sprintf("there is no pool %q: add it to the configuration of purelb-ipam-netbox", name)
}

// work performs a call. No other call for its service runs at the same time. It continues after
// PureLB gives the call up, because only the answer of NetBox shows the outcome.
func (s *Server) work(ctx context.Context, p *pool, service string, do func(context.Context, *netbox.Pool) *ipam.Error) error {
	done, err := s.holders.take(ctx, p.group.Name+" "+service)
	if err != nil {
		return status.FromContextError(err).Err()
	}
	defer done()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	ready, err := p.prepare(ctx)
	if err != nil {
		return statusOf(ipam.AsError(err))
	}
	failure := do(ctx, ready)
	p.note(failure)
	if failure != nil {
		return statusOf(failure)
	}
	return nil
}
