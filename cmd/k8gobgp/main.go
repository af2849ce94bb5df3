// Command k8gobgp is the BGP speaker of one node. It announces the addresses of Services that
// lbnodeagent puts on the dummy interface. It needs nothing else from lbnodeagent. Both run in the
// same pod.
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

	"k8s.io/klog/v2"

	"purelb.io/purelb/internal/bgp/bfd"
	"purelb.io/purelb/internal/bgp/gobgp"
	"purelb.io/purelb/internal/bgp/routing"
	"purelb.io/purelb/internal/bgp/speaker"
	"purelb.io/purelb/internal/kube"
	"purelb.io/purelb/internal/nodes/shutdown"
	"purelb.io/purelb/internal/process"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	defer stop()
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	if errors.Is(err, gobgp.ErrRestart) {
		// If the program ended, the kubelet would wait for 10 s before it starts the container for the second
		// time within ten minutes.
		err = syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "k8gobgp:", err)
		os.Exit(1)
	}
}

// run runs the speaker until ctx is done. It returns gobgp.ErrRestart if the program must start anew. Usage goes to
// stderr, logs to stdout.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) error {
	f, err := parse(args, env, stderr)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	log := process.Logger(stdout, f.level, ctx.Done())
	klog.SetSlogLogger(log)
	for _, name := range f.ignored {
		log.WarnContext(ctx, "flagIgnored", "flag", name, "reason", "the BGP server is part of this process")
	}

	kube.NoticeDeadConnections()
	process.CollectSooner()
	cfg, err := kube.Config(f.kubeconfig, log)
	if err != nil {
		return err
	}
	kernel, err := routing.New(log)
	if err != nil {
		return err
	}
	defer kernel.Close()

	f.Machine, f.Services, f.Log = shutdown.WatchMachine(ctx, f.kubelet), kernel.ServiceAddresses, log
	f.Restart = func() { end(gobgp.ErrRestart) }
	err = speaker.Run(ctx, cfg, gobgp.New(log), kernel, bfd.New(log), f.Setup)
	if err == nil && errors.Is(context.Cause(ctx), gobgp.ErrRestart) {
		return gobgp.ErrRestart
	}
	return err
}
