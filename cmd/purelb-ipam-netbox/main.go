// Command purelb-ipam-netbox serves purelb.ipam.v1.IPAM with addresses from NetBox, on a Unix
// socket in the allocator's pod.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"purelb.io/purelb/internal/ipamserver"
	"purelb.io/purelb/internal/process"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "purelb-ipam-netbox:", err)
		os.Exit(1)
	}
}

// run serves until ctx is done. Usage goes to stderr, logs to stdout.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) error {
	f, err := parse(args, env, stderr)
	if err != nil {
		return err
	}
	config, err := ipamserver.Read(f.config)
	if err != nil {
		return err
	}
	log := process.Logger(stdout, f.level, ctx.Done())
	return ipamserver.Serve(ctx, f.socket, ipamserver.New(config, log), log)
}
