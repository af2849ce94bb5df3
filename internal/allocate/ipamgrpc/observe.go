package ipamgrpc

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// Observer is called for each call with its socket, its full method, the name of its code
// and its duration. It must not block.
type Observer func(socket, method, code string, took time.Duration)

// observed calls the observer for each call.
func observed(socket string, observe Observer) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		start := time.Now()
		err := invoke(ctx, method, request, reply, conn, options...)
		observe(socket, method, status.Code(err).String(), time.Since(start))
		return err
	}
}

// trace is how far a call got. The code alone does not show this: UNAVAILABLE may be from the
// server, or from gRPC if the server was never reached or died during the call.
type trace struct {
	// sent: the server may have the request.
	sent atomic.Bool
	// begun: the server began to answer with a message.
	begun atomic.Bool
	// answered: the server ended the call.
	answered atomic.Bool
}

type traceKey struct{}

func traced(ctx context.Context) (context.Context, *trace) {
	t := &trace{}
	return context.WithValue(ctx, traceKey{}, t), t
}

// wireTap records in the trace of a call what the connection transmits.
type wireTap struct{}

// HandleRPC implements stats.Handler.
func (wireTap) HandleRPC(ctx context.Context, event stats.RPCStats) {
	t, ok := ctx.Value(traceKey{}).(*trace)
	if !ok {
		return
	}
	switch event.(type) {
	case *stats.OutHeader:
		t.sent.Store(true)
	case *stats.InHeader:
		t.begun.Store(true)
	case *stats.InTrailer:
		t.answered.Store(true)
	}
}

// TagRPC implements stats.Handler.
func (wireTap) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// TagConn implements stats.Handler.
func (wireTap) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (wireTap) HandleConn(context.Context, stats.ConnStats) {}
