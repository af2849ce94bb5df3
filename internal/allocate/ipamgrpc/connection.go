package ipamgrpc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/allocate/ipam"
)

const (
	// patience is how long a call may take.
	patience = 10 * time.Second
	// longestBackoff is the longest pause between two attempts to connect. It limits the delay
	// after a server comes back. Connecting to a Unix socket costs nearly nothing.
	longestBackoff = 5 * time.Second
	// longestAnswer is far more than 16 addresses or the names of many ranges need.
	longestAnswer = 256 << 10
	// longestHeaders limits the message of an error, which is in the trailer.
	longestHeaders = 64 << 10
)

// connection is the connection to the server on a socket.
type connection struct {
	*grpc.ClientConn
	socket string
	// withTimeout is context.WithTimeout, except in tests.
	withTimeout func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	// dialed is the outcome of the last dial.
	dialed atomic.Pointer[error]
}

// newConnection prepares a connection. The first call dials.
//
// There are no keepalive pings: the kernel closes a Unix socket when the process on the other
// side ends, each call has a deadline, and many servers treat pings as an attack.
func newConnection(socket string, observe Observer) (*connection, error) {
	c := &connection{socket: socket, withTimeout: context.WithTimeout}
	var err error
	c.ClientConn, err = grpc.NewClient("passthrough:///ipam",
		grpc.WithContextDialer(c.dial),
		grpc.WithAuthority("localhost"), // some servers refuse the path of a socket as a name
		grpc.WithNoProxy(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUserAgent("purelb-allocator"),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: longestBackoff},
			MinConnectTimeout: 2 * patience, // the deadline of the call is earlier
		}),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(longestAnswer)),
		grpc.WithMaxHeaderListSize(longestHeaders),
		grpc.WithStatsHandler(wireTap{}),
		grpc.WithChainUnaryInterceptor(observed(socket, observe)),
	)
	return c, err
}

// dial connects to the socket, whatever target name gRPC passes.
func (c *connection) dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", c.socket)
	c.dialed.Store(&err)
	return conn, err
}

// call makes one call and explains its error. It skips the call if there is no socket.
func (c *connection) call(ctx context.Context, rpc method, do func(context.Context, ipamv1.IPAMClient) error) *ipam.Error {
	if fault := c.missing(); fault != nil {
		return fault
	}
	ctx, cancel := c.withTimeout(ctx, patience)
	defer cancel()
	ctx, trace := traced(ctx)
	err := do(ctx, ipamv1.NewIPAMClient(c.ClientConn))
	switch {
	case err == nil:
		return nil
	case trace.begun.Load() && strings.HasPrefix(status.Convert(err).Message(), "grpc: "):
		// gRPC reports an unreadable answer by codes that servers also use for refusals.
		return c.fault(ipam.KindUnknown, err, "answers %s with what cannot be read: %s", rpc, text(status.Convert(err).Message()))
	case trace.answered.Load():
		return c.refusal(rpc, status.Convert(err), err)
	case trace.sent.Load():
		return c.fault(ipam.KindUnknown, err, "does not answer %s, and may have done what was asked: %s", rpc, text(status.Convert(err).Message()))
	}
	return c.unreached(err)
}

// missing returns the reason why no server can listen on the socket. It prevents calls before the
// server exists.
func (c *connection) missing() *ipam.Error {
	if c.GetState() == connectivity.Ready {
		return nil
	}
	info, err := os.Stat(c.socket)
	switch {
	case err == nil && info.Mode().Type() != fs.ModeSocket:
		return c.fault(ipam.KindMisconfigured, nil, "cannot be reached: %s is no socket; correct spec.external.socket", c.socket)
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return c.fault(ipam.KindUnavailable, err, "is not there: it makes the socket when it starts, in a folder that the allocator's container has too; look at the server's container and at spec.external.socket")
	}
	return c.unreachable(err)
}

// unreached explains why a call did not leave this process.
func (c *connection) unreached(err error) *ipam.Error {
	if dialed := c.dialed.Load(); dialed != nil && *dialed != nil {
		return c.unreachable(*dialed)
	}
	return c.fault(ipam.KindUnavailable, err, "cannot be reached: %s", text(status.Convert(err).Message()))
}

// unreachable explains why the socket cannot be used.
func (c *connection) unreachable(err error) *ipam.Error {
	if errors.Is(err, fs.ErrPermission) {
		return c.fault(ipam.KindMisconfigured, err, "cannot be reached: %s; user %d, as which the allocator runs, needs the right to write to the socket and to search its folders", text(err.Error()), os.Geteuid())
	}
	return c.fault(ipam.KindUnavailable, err, "cannot be reached: %s", text(err.Error()))
}

// fault returns an error whose message begins with the name of the server.
func (c *connection) fault(kind ipam.Kind, cause error, format string, args ...any) *ipam.Error {
	return &ipam.Error{Kind: kind, Cause: cause, Message: "the IPAM server on " + c.socket + " " + fmt.Sprintf(format, args...)}
}
