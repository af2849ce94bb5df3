package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Server serves Handler at Address, for metrics and probes. Address is "host:port". If it is "" or
// "0", Server serves nothing.
type Server struct {
	Address string
	Handler http.Handler
	// Services, if set, returns the addresses that this node has only for Services. The server
	// refuses connections to them.
	Services func(context.Context) (map[netip.Addr]bool, error)
}

// Run serves until ctx is done. Then it closes open connections.
func (s Server) Run(ctx context.Context) error {
	if s.Address == "" || s.Address == "0" {
		<-ctx.Done()
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("serve metrics and probes: %w", err)
	}
	if s.Services != nil {
		listener = &guard{Listener: listener, ctx: ctx, services: s.Services}
	}
	return s.serve(ctx, listener)
}

func (s Server) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: s.Handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics and probes: %w", err)
	}
	return nil
}

// Probe serves the result of check.
func Probe(check func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
}
