package ipamtest

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/addr"
)

// Socket returns a path that is short enough for a socket, in a folder of its own.
func Socket(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "ipam")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(folder, "ipam.sock")
}

// Listen listens on a socket.
func Listen(t testing.TB, socket string) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Serve runs server on l until stop is called, or until the test ends.
func Serve(t testing.TB, l net.Listener, server ipamv1.IPAMServer, options ...grpc.ServerOption) (stop func()) {
	t.Helper()
	s := grpc.NewServer(options...)
	ipamv1.RegisterIPAMServer(s, server)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Serve(l); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	stop = sync.OnceFunc(func() {
		s.Stop()
		serving.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// Server is an IPAM server in memory. It keeps the contract, and every pool has all addresses.
type Server struct {
	ipamv1.UnimplementedIPAMServer
	// Before, if set, is called before each allocation, and After after it. The server returns their error.
	Before, After func(context.Context, *ipamv1.AllocateRequest) error
	// Cluster distinguishes the clusters that have a server with the same Book.
	Cluster string
	*Book
}

// Book has the holders of a few addresses of each family.
type Book struct {
	addresses map[addr.Family][]netip.Addr

	mu   sync.Mutex
	held map[netip.Addr]string
}

// NewServer returns a server that has six addresses from v4 on, and six from 2001:db8::1 on.
func NewServer(v4 string) *Server {
	b := &Book{addresses: map[addr.Family][]netip.Addr{}, held: map[netip.Addr]string{}}
	for _, first := range []string{v4, "2001:db8::1"} {
		a := netip.MustParseAddr(first)
		for range 6 {
			b.addresses[addr.FamilyOf(a)] = append(b.addresses[addr.FamilyOf(a)], a)
			a = a.Next()
		}
	}
	return &Server{Book: b}
}

// Addresses returns all addresses of a family.
func (b *Book) Addresses(f addr.Family) []netip.Addr { return b.addresses[f] }

// Allocate implements ipamv1.IPAMServer.
func (s *Server) Allocate(ctx context.Context, r *ipamv1.AllocateRequest) (*ipamv1.AllocateResponse, error) {
	if s.Before != nil {
		if err := s.Before(ctx, r); err != nil {
			return nil, err
		}
	}
	reply, err := s.allocate(s.holder(r), r)
	if s.After != nil && err == nil {
		err = s.After(ctx, r)
	}
	return reply, err
}

// holder names whom a request is for.
func (s *Server) holder(r interface {
	GetPool() string
	GetService() string
}) string {
	return s.Cluster + r.GetPool() + " " + r.GetService()
}

func (b *Book) allocate(holder string, r *ipamv1.AllocateRequest) (*ipamv1.AllocateResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var chosen []netip.Addr
	for _, text := range r.GetExplicit().GetIps() {
		a := netip.MustParseAddr(text)
		if !slices.Contains(b.addresses[addr.FamilyOf(a)], a) {
			return nil, status.Errorf(codes.InvalidArgument, "%s is not in this pool", a)
		}
		if other, held := b.held[a]; held && other != holder {
			return nil, status.Errorf(codes.AlreadyExists, "%s is held by %s", a, other)
		}
		chosen = append(chosen, a)
	}
	for f, wanted := range map[addr.Family]bool{addr.V4: r.GetFamilies().GetWantIpv4(), addr.V6: r.GetFamilies().GetWantIpv6()} {
		if a := b.firstOf(f, holder); wanted && !a.IsValid() {
			return nil, status.Errorf(codes.ResourceExhausted, "no %s address is free", f)
		} else if wanted {
			chosen = append(chosen, a)
		}
	}
	reply := &ipamv1.AllocateResponse{}
	for _, a := range chosen {
		b.held[a] = holder
		reply.Ips = append(reply.Ips, &ipamv1.AllocatedIP{Ip: a.String()})
	}
	return reply, nil
}

// firstOf returns the address of the holder, or else the first free one.
func (b *Book) firstOf(f addr.Family, holder string) (free netip.Addr) {
	for _, a := range slices.Backward(b.addresses[f]) {
		switch other, held := b.held[a]; {
		case other == holder:
			return a
		case !held:
			free = a
		}
	}
	return free
}

// Release implements ipamv1.IPAMServer.
func (s *Server) Release(_ context.Context, r *ipamv1.ReleaseRequest) (*ipamv1.ReleaseResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a, holder := range s.held {
		if holder == s.holder(r) && (r.GetAll() || r.GetIp() == a.String()) {
			delete(s.held, a)
		}
	}
	return &ipamv1.ReleaseResponse{}, nil
}

// Stats implements ipamv1.IPAMServer.
func (s *Server) Stats(context.Context, *ipamv1.StatsRequest) (*ipamv1.StatsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	four := s.addresses[addr.V4]
	reply := &ipamv1.StatsResponse{
		HasKnownCapacity: true, SizeV4: uint64(len(four)), SizeV6: uint64(len(s.addresses[addr.V6])),
		DisplayAddresses: []string{addr.Range{From: four[0], To: four[len(four)-1]}.String()},
	}
	for a := range s.held {
		if a.Is4() {
			reply.InUseV4++
		} else {
			reply.InUseV6++
		}
	}
	return reply, nil
}

// Print lists the held addresses with their holders, sorted.
func (b *Book) Print() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lines []string
	for a, holder := range b.held {
		lines = append(lines, holder+" "+a.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}
