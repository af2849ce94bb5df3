package ipamgrpc

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/testing/ipamtest"
)

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
	return &listener{UnixListener: ipamtest.Listen(t, socket)}
}

func newStore() *ipamtest.Server { return ipamtest.NewServer("192.0.2.1") }

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
	socket := ipamtest.Socket(t)
	ipamtest.Serve(t, listen(t, socket), server, options...)
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
