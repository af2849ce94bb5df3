package ipamserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
)

// goodbye is how long calls may last after the program was asked to end. Kubernetes kills the
// program after 30 s.
const goodbye = 20 * time.Second

// Serve serves on a socket until ctx is done, and finishes the calls that have begun. It
// logs calls that fail.
func Serve(ctx context.Context, socket string, server ipamv1.IPAMServer, log *slog.Logger) error {
	listener, err := listen(ctx, socket)
	if err != nil {
		return err
	}
	g := grpc.NewServer(grpc.UnaryInterceptor(logged(log)))
	ipamv1.RegisterIPAMServer(g, server)
	stop := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(goodbye, g.Stop)
		defer late.Stop()
		g.GracefulStop()
	})
	defer stop()
	log.InfoContext(ctx, "serving", "socket", socket)
	if err := g.Serve(listener); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil // it was stopped before it began
}

// listen removes the socket that a killed predecessor left. Every user in the pod may connect to
// the new socket. Only pods with its folder can reach it.
func listen(ctx context.Context, socket string) (net.Listener, error) {
	if err := clear(ctx, socket); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen on the socket: %w: give --socket a path of at most 107 bytes in a folder that user %d may write to", err, os.Geteuid())
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		return nil, errors.Join(fmt.Errorf("let the allocator reach the socket: %w", err), listener.Close())
	}
	return listener, nil
}

// clear removes a socket without a listening program, and nothing else.
func clear(ctx context.Context, socket string) error {
	info, err := os.Lstat(socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for an old socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is no socket, and is left alone: give another path with --socket", socket)
	}
	if conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket); err == nil {
		return errors.Join(fmt.Errorf("another program listens on %s: end it, or give another path with --socket", socket), conn.Close())
	}
	return os.Remove(socket)
}

// logged logs calls that fail.
func logged(log *slog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		reply, err := handle(ctx, request)
		if err == nil {
			return reply, nil
		}
		attributes := []any{"method", info.FullMethod, "code", status.Code(err).String(), "error", status.Convert(err).Message()}
		if r, ok := request.(interface{ GetPool() string }); ok {
			attributes = append(attributes, "pool", r.GetPool())
		}
		if r, ok := request.(interface{ GetService() string }); ok {
			attributes = append(attributes, "service", r.GetService())
		}
		log.WarnContext(ctx, "callFailed", attributes...)
		return reply, err
	}
}
