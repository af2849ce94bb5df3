package ipamserver

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/testing/ipamtest"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// backend makes a new server for each driver, as after a restart. loss is how NetBox loses an
// answer. With None, the server loses its own answer.
type backend struct {
	*world
	loss  netboxtest.Fault
	loses atomic.Bool
}

func (b *backend) Driver(cluster string) ipamtest.Driver {
	return b.group(b.serve(&losing{b.server(cluster), &b.loses}), "default")
}

func (b *backend) Addresses(f addr.Family) []netip.Addr {
	first, n := netip.MustParseAddr("192.0.2.1"), 14
	if f == addr.V6 {
		first, n = netip.MustParseAddr("2001:db8::10"), 6
	}
	var list []netip.Addr
	for a := first; len(list) < n; a = a.Next() {
		list = append(list, a)
	}
	return list
}

func (b *backend) LoseAnswer() {
	if b.loss == netboxtest.None {
		b.loses.Store(true)
		return
	}
	b.fail(b.loss)
}

// losing executes each request, and can lose its answer.
type losing struct {
	ipamv1.IPAMServer
	loses *atomic.Bool
}

func (l *losing) Allocate(ctx context.Context, r *ipamv1.AllocateRequest) (*ipamv1.AllocateResponse, error) {
	reply, err := l.IPAMServer.Allocate(ctx, r)
	if l.loses.Swap(false) {
		return nil, status.Error(codes.Internal, "the answer was lost")
	}
	return reply, err
}

func (l *losing) Release(ctx context.Context, r *ipamv1.ReleaseRequest) (*ipamv1.ReleaseResponse, error) {
	reply, err := l.IPAMServer.Release(ctx, r)
	if l.loses.Swap(false) {
		return nil, status.Error(codes.Internal, "the answer was lost")
	}
	return reply, err
}

func TestTheServerKeepsTheContract(t *testing.T) {
	for _, version := range []string{netboxtest.V44, netboxtest.V46} {
		for name, loss := range map[string]netboxtest.Fault{
			"answers are lost on the socket": netboxtest.None,
			"answers of NetBox are lost":     netboxtest.LoseReply,
			"NetBox fails after the commit":  netboxtest.FailAfter,
		} {
			t.Run(version+", "+name, func(t *testing.T) {
				ipamtest.Contract(t, func(t *testing.T) ipamtest.Backend {
					return &backend{world: newWorld(t, version), loss: loss}
				})
			})
		}
	}
}
