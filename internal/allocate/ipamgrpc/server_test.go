package ipamgrpc

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// socketIn returns a path that is short enough for a socket, even if the test has a long name.
func socketIn(t *testing.T) string {
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

// listener keeps the accepted connections, so that a test can break them.
type listener struct {
	*net.UnixListener
	mu       sync.Mutex
	accepted []net.Conn
}

func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.UnixListener.Accept()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted = append(l.accepted, conn)
	return conn, err
}

// breakAll closes the connections.
func (l *listener) breakAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.accepted {
		if conn != nil {
			conn.Close()
		}
	}
}

func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted)
}

func listen(t *testing.T, socket string) *listener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	return &listener{UnixListener: l}
}

// start runs the server until the end of the test.
func start(t *testing.T, l *listener, server ipamv1.IPAMServer, options ...grpc.ServerOption) *grpc.Server {
	t.Helper()
	s := grpc.NewServer(options...)
	ipamv1.RegisterIPAMServer(s, server)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Serve(l); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(func() {
		s.Stop()
		serving.Wait()
	})
	return s
}

// store is a server in memory that keeps the contract. The results of its functions take
// precedence.
type store struct {
	ipamv1.UnimplementedIPAMServer
	// before is called before an allocation, and after after it. The server returns their error.
	before, after func(context.Context, *ipamv1.AllocateRequest) error
	// suffix distinguishes the clusters that have a server of this store.
	suffix string
	*book
}

// book has the owner of each address.
type book struct {
	mu   sync.Mutex
	held map[netip.Addr]string
}

func newStore() *store { return &store{book: &book{held: map[netip.Addr]string{}}} }

func (s *store) Allocate(ctx context.Context, r *ipamv1.AllocateRequest) (*ipamv1.AllocateResponse, error) {
	if s.before != nil {
		if err := s.before(ctx, r); err != nil {
			return nil, err
		}
	}
	reply, err := s.allocate(r.Pool+" "+r.Service+s.suffix, r)
	if s.after != nil && err == nil {
		err = s.after(ctx, r)
	}
	return reply, err
}

func (s *store) allocate(owner string, r *ipamv1.AllocateRequest) (*ipamv1.AllocateResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var chosen []netip.Addr
	for _, text := range r.GetExplicit().GetIps() {
		a := netip.MustParseAddr(text)
		if !slices.Contains(addressesOf(addr.FamilyOf(a)), a) {
			return nil, status.Errorf(codes.InvalidArgument, "%s is not in this pool", a)
		}
		if holder, held := s.held[a]; held && holder != owner {
			return nil, status.Errorf(codes.AlreadyExists, "%s is held by %s", a, holder)
		}
		chosen = append(chosen, a)
	}
	for f, wanted := range map[addr.Family]bool{addr.V4: r.GetFamilies().GetWantIpv4(), addr.V6: r.GetFamilies().GetWantIpv6()} {
		if a := s.firstOf(f, owner); wanted && !a.IsValid() {
			return nil, status.Errorf(codes.ResourceExhausted, "no %s address is free", f)
		} else if wanted {
			chosen = append(chosen, a)
		}
	}
	reply := &ipamv1.AllocateResponse{}
	for _, a := range chosen {
		s.held[a] = owner
		reply.Ips = append(reply.Ips, &ipamv1.AllocatedIP{Ip: a.String()})
	}
	return reply, nil
}

// firstOf returns the address of the owner, or else a free one.
func (b *book) firstOf(f addr.Family, owner string) (free netip.Addr) {
	for _, a := range slices.Backward(addressesOf(f)) {
		switch holder, held := b.held[a]; {
		case holder == owner:
			return a
		case !held:
			free = a
		}
	}
	return free
}

func (s *store) Release(_ context.Context, r *ipamv1.ReleaseRequest) (*ipamv1.ReleaseResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a, holder := range s.held {
		if holder == r.Pool+" "+r.Service+s.suffix && (r.GetAll() || r.GetIp() == a.String()) {
			delete(s.held, a)
		}
	}
	return &ipamv1.ReleaseResponse{}, nil
}

func (s *store) Stats(context.Context, *ipamv1.StatsRequest) (*ipamv1.StatsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := &ipamv1.StatsResponse{SizeV4: poolSize, SizeV6: poolSize, HasKnownCapacity: true, DisplayAddresses: []string{"192.0.2.1-192.0.2.6"}}
	for a := range s.held {
		if a.Is4() {
			reply.InUseV4++
		} else {
			reply.InUseV6++
		}
	}
	return reply, nil
}

// print lists the held addresses, sorted.
func (b *book) print() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lines []string
	for a, holder := range b.held {
		lines = append(lines, fmt.Sprintf("%s %s\n", a, holder))
	}
	slices.Sort(lines)
	return fmt.Sprint(lines)
}

const poolSize = 6

// addressesOf returns the addresses of the store.
func addressesOf(f addr.Family) []netip.Addr {
	list := []netip.Addr{netip.MustParseAddr(map[addr.Family]string{addr.V4: "192.0.2.1", addr.V6: "2001:db8::1"}[f])}
	for len(list) < poolSize {
		list = append(list, list[len(list)-1].Next())
	}
	return list
}

// calls are the calls that an Observer got, as "method code".
type calls struct {
	mu   sync.Mutex
	list []string
}

func (c *calls) observe(_, method, code string, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, method+" "+code)
}

func (c *calls) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.list)
}

// open returns a group on a socket, and the calls that its observer gets.
func open(t *testing.T, socket string) (*Group, *calls) {
	t.Helper()
	seen := &calls{}
	return openIn(t, socket, "default", seen.observe), seen
}

// serve runs a server on a socket of its own, and returns a group on it, with the calls that its
// observer gets.
func serve(t *testing.T, server ipamv1.IPAMServer, options ...grpc.ServerOption) (*Group, *calls) {
	t.Helper()
	socket := socketIn(t)
	start(t, listen(t, socket), server, options...)
	return open(t, socket)
}

func openIn(t *testing.T, socket, pool string, observe Observer) *Group {
	t.Helper()
	g, err := Open(socket, pool, "test", observe)
	if err != nil {
		t.Fatal(err)
	}
	g.connection.withTimeout = patiently
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Errorf("close the group: %v", err)
		}
	})
	return g
}

// patiently gives a call all the time that it may need on a busy machine.
func patiently(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

// ask claims addresses for default/web, one for each of wants, and prints the answers.
func ask(t *testing.T, g *Group, wants ...any) string {
	t.Helper()
	return printAnswers(g.Claim(t.Context(), claimsOf("web", wants...)))
}

func claimsOf(service string, wants ...any) (list []ipam.Claim) {
	for _, want := range wants {
		list = append(list, claim(service, want))
	}
	return list
}

// failure claims an IPv4 address for default/web, and returns the error.
func failure(t *testing.T, g *Group) error {
	t.Helper()
	return g.Claim(t.Context(), claimsOf("web", addr.V4))[0].Err
}

// claim returns the claim of a Service, for a family or an address.
func claim(service string, want any) ipam.Claim {
	c := ipam.Claim{Group: "default", Service: "default/" + service}
	switch want := want.(type) {
	case addr.Family:
		c.Family = want
	case string:
		c.Address = netip.MustParseAddr(want)
		c.Family = addr.FamilyOf(c.Address)
	}
	c.Key = ipam.KeyOf("prod", c)
	return c
}
