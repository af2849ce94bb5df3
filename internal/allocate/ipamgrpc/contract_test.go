package ipamgrpc

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/testing/ipamtest"
)

// backend is a store that serves each cluster on its own socket.
type backend struct {
	t       *testing.T
	store   *ipamtest.Server
	sockets map[string]string
	loses   atomic.Bool
}

func (b *backend) Driver(cluster string) ipamtest.Driver {
	socket, known := b.sockets[cluster]
	if !known {
		socket = ipamtest.Socket(b.t)
		b.sockets[cluster] = socket
		l := listen(b.t, socket)
		ipamtest.Serve(b.t, l, &ipamtest.Server{Cluster: cluster + " ", Book: b.store.Book}, grpc.UnaryInterceptor(b.losing(l)))
	}
	g, _ := open(b.t, socket)
	return g
}

// losing breaks the connection after the call has done its work and before the answer.
func (b *backend) losing(l *listener) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		reply, err := handle(ctx, request)
		if b.loses.Swap(false) {
			l.breakAll()
		}
		return reply, err
	}
}

func (b *backend) Addresses(f addr.Family) []netip.Addr { return b.store.Addresses(f) }

func (b *backend) LoseAnswer() { b.loses.Store(true) }

func TestTheDriverKeepsTheContract(t *testing.T) {
	ipamtest.Contract(t, func(t *testing.T) ipamtest.Backend {
		return &backend{t: t, store: newStore(), sockets: map[string]string{}}
	})
}
