// Command allocator gives addresses to Kubernetes Services of type LoadBalancer. One replica
// works. With leader election, the other replicas stand by.
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

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"purelb.io/purelb/internal/allocate"
	"purelb.io/purelb/internal/bgp/configstatus"
	"purelb.io/purelb/internal/kube"
	"purelb.io/purelb/internal/process"
	"purelb.io/purelb/internal/service"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "allocator:", err)
		os.Exit(1)
	}
}

// run runs the allocator until ctx is done. Usage goes to stderr, logs to stdout.
func run(ctx context.Context, args []string, env func(string) string, stdout, stderr io.Writer) error {
	f, err := parse(args, env, stderr)
	if err != nil {
		return err
	}
	// controller-runtime logs the same error when the process releases the lock at its end.
	log := process.Logger(stdout, f.level, ctx.Done(), "leader election lost")
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
	klog.SetSlogLogger(log)

	kube.NoticeDeadConnections()
	cfg, err := kube.Config(f.kubeconfig, log)
	if err != nil {
		return err
	}
	if f.removeFinalizers {
		c, err := client.New(cfg, client.Options{})
		if err != nil {
			return fmt.Errorf("make the client: %w", err)
		}
		return allocate.RemoveFinalizers(ctx, c)
	}
	var loop allocate.Loop
	if f.bgp {
		loop = configstatus.Loop(f.namespace, log)
	}
	return allocate.Run(ctx, cfg, allocate.Options{
		Namespace:        f.namespace,
		ConfigNamespaces: f.configNamespaces,
		Rules:            service.Rules{ByDefault: f.announcer == defaultAnnouncer, Others: f.others},
		IgnorePodCIDRs:   !f.podCIDRs,
		LeaderElect:      f.leaderElect,
		Identity:         f.identity,
		GossipSecret:     f.gossipSecret,
		ClusterName:      f.clusterName, ReplacesCluster: f.replaces,
		SweepEvery:     f.sweepEvery,
		Loop:           loop,
		MetricsAddress: f.metricsAddress(),
		HealthAddress:  f.healthAddress,
		Log:            log,
	})
}
