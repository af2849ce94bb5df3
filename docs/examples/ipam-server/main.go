// Command ipam-server is an example of a program that hands out addresses to PureLB: it
// serves purelb.ipam.v1.IPAM on a Unix socket and keeps what it handed out in a file.
//
//	ipam-server SOCKET FILE POOL=PREFIX...
//
// A POOL is the name of a ServiceGroup. It has all addresses of its prefixes, of which there may
// be several.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"google.golang.org/grpc"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ipam-server:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 3 {
		return errors.New("usage: ipam-server SOCKET FILE POOL=PREFIX")
	}
	s := &server{pools: map[string][]netip.Prefix{}, book: book{file: args[1]}}
	for _, arg := range args[2:] {
		pool, text, _ := strings.Cut(arg, "=")
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("%s: want POOL=PREFIX: %w", arg, err)
		}
		s.pools[pool] = append(s.pools[pool], prefix)
	}
	if err := s.book.read(); err != nil {
		return err
	}
	listener, err := listen(args[0])
	if err != nil {
		return err
	}
	g := grpc.NewServer()
	ipamv1.RegisterIPAMServer(g, s)
	context.AfterFunc(ctx, g.GracefulStop)
	return g.Serve(listener)
}

// listen removes the socket that a killed predecessor left, and lets every user of the pod
// connect to the new one.
func listen(socket string) (net.Listener, error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	return listener, os.Chmod(socket, 0o666)
}
