// Command fakenetbox runs the NetBox of netboxtest as a program, for the lab: a server
// outside of the cluster, whose faults a test switches on and off.
//
//	fakenetbox -listen 192.0.2.1:8000 -control 192.0.2.1:8001 -range 198.51.100.10-198.51.100.99/24
//
// It has one token, which may do everything, and keeps its state in memory. It listens on two
// addresses. The first is NetBox. The second is the control endpoint, which is described in
// control.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"purelb.io/purelb/internal/testing/netboxtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "fakenetbox:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	listen, control, token string
	latency                time.Duration
	blocks                 []netboxtest.Block
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("fakenetbox", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.listen, "listen", "127.0.0.1:8000", "`address` of NetBox")
	f.StringVar(&o.control, "control", "127.0.0.1:8001", "`address` of the control endpoint")
	f.StringVar(&o.token, "token", netboxtest.AdminToken, "the API token")
	f.DurationVar(&o.latency, "latency", 0, "how long a request takes that reads or changes addresses")
	f.Func("range", "an IP range of NetBox, as `FIRST-LAST/BITS`; may be repeated", func(text string) error {
		b, err := parseRange(text)
		o.blocks = append(o.blocks, b)
		return err
	})
	err := f.Parse(args)
	return o, err
}

func parseRange(text string) (netboxtest.Block, error) {
	first, rest, _ := strings.Cut(text, "-")
	last, bits, _ := strings.Cut(rest, "/")
	p, err := netip.ParsePrefix(first + "/" + bits)
	if err != nil {
		return netboxtest.Block{}, fmt.Errorf("%q: want FIRST-LAST/BITS: %w", text, err)
	}
	end, err := netip.ParseAddr(last)
	if err != nil || end.Less(p.Addr()) || end.BitLen() != p.Addr().BitLen() {
		return netboxtest.Block{}, fmt.Errorf("%q: want FIRST-LAST/BITS", text)
	}
	return netboxtest.Block{Prefix: p, End: end}, nil
}

// netBox returns the server that the flags describe.
func (o options) netBox() *netboxtest.Server {
	s := netboxtest.New(netboxtest.V46)
	s.SetToken(netboxtest.AdminToken, netboxtest.Token{Refusal: netboxtest.Disabled})
	s.SetToken(o.token, netboxtest.Token{})
	s.Latency = func(*http.Request) time.Duration { return o.latency }
	for _, b := range o.blocks {
		s.AddBlock(b)
	}
	return s
}

// run serves until ctx is done.
func run(ctx context.Context, args []string, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	s := o.netBox()
	gate := &gate{}
	s.Pass = gate.pass
	site := &site{address: o.listen, handler: s}
	if err := site.open(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.control)
	if err != nil {
		return err
	}
	ctx, exit := context.WithCancel(ctx)
	defer exit()
	control := &control{netbox: s, token: o.token, gate: gate, site: site, exit: exit}
	server := &http.Server{Handler: control.routes(), ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Shutdown(context.WithoutCancel(ctx)) })
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return site.close()
}
