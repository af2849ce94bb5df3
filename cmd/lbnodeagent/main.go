// Command lbnodeagent keeps the addresses of Kubernetes Services on the interfaces of one node. It
// works together with the agents of the other nodes.
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

	"purelb.io/purelb/internal/announce/agent"
	"purelb.io/purelb/internal/announce/linux"
	"purelb.io/purelb/internal/kube"
	"purelb.io/purelb/internal/nodes/shutdown"
	"purelb.io/purelb/internal/process"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	defer stop()
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "lbnodeagent:", err)
		os.Exit(1)
	}
}

// run runs the agent until ctx is done. Usage goes to stderr, logs to stdout.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) error {
	f, err := parse(args, env, stderr)
	if err != nil {
		return err
	}
	log := process.Logger(stdout, f.level, ctx.Done())
	klog.SetSlogLogger(log)

	kube.NoticeDeadConnections()
	cfg, err := kube.Config(f.kubeconfig, log)
	if err != nil {
		return err
	}
	kernel, err := linux.New(log)
	if err != nil {
		return err
	}
	defer kernel.Close()

	f.Log, f.Machine = log, shutdown.WatchMachine(ctx, f.kubelet)
	return agent.Run(ctx, cfg, kernel, f.Setup)
}
