package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/explain"
)

func newAdopt(o *options) *cobra.Command {
	return o.transferring(false, &cobra.Command{
		Use: "adopt [-A | NAME]", Short: "Take over Services from another load balancer, with their addresses",
		Long: `Take over Services without a loadBalancerClass from another load balancer. They keep
their addresses. For each Service the answer has its ServiceGroup, which program gave the
addresses, which node has them as far as the Service tells, and what is in the way.

One Service after the other gets the annotation purelb.io/adopt, and the annotations of
PureLB in place of those of that program; those that share an address get them together.
The command waits until PureLB serves it and a node announces it, and ends at the first
Service that is not served in time. Run it again to go on: it leaves alone what is done.
With --dry-run nothing is changed.

--from takes only Services with the marks of that program. --from servicelb also removes
the finalizers of K3s ServiceLB, and gives a Service that shows addresses of nodes an
address of a ServiceGroup instead.

The exit code is 1 if something is in the way of a Service, or it was not served in time.
You need the right to patch Services, and for --from servicelb also services/status.`,
		Example: `  kubectl purelb adopt default/web --dry-run
  kubectl purelb adopt -A --from metallb --dry-run`,
	})
}

func newLeave(o *options) *cobra.Command {
	return o.transferring(true, &cobra.Command{
		Use: "leave [-A | NAME]", Short: "Leave Services to another load balancer, with their addresses",
		Long: `Leave Services without a loadBalancerClass to another load balancer, which must run
and have their addresses in its pools: the nodes of PureLB stop announcing them.

One Service after the other gets the annotation purelb.io/leave in place of
purelb.io/adopt. The command waits until PureLB has let it go, and ends at the first
Service that it has not let go in time. Run it again to go on. With --dry-run nothing is
changed.

The exit code is 1 if something is in the way of a Service, or PureLB has not let it go in
time. You need the right to patch Services.`,
		Example: `  kubectl purelb leave default/web --dry-run`,
	})
}

// transferring completes cmd, which moves Services between load balancers.
func (o *options) transferring(leave bool, cmd *cobra.Command) *cobra.Command {
	wish := explain.Wish{Leave: leave}
	var all bool
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		_, known := explain.Programs[wish.From]
		switch {
		case wish.From != "" && !known:
			return fmt.Errorf("--from %q is no load balancer that adopt knows; use %s", wish.From, programs())
		case all && len(args) == 0:
			return nil
		case all:
			return withHelp(cmd, errors.New("-A is for all Services, so there must be no argument"))
		}
		return oneArgument(o.isService)(cmd, args)
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "All Services")
	if !leave {
		cmd.Flags().StringVar(&wish.From, "from", "", "Only Services of this load balancer: "+programs())
		_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions(slices.Sorted(maps.Keys(explain.Programs)), cobra.ShellCompDirectiveNoFileComp))
	}
	return o.changing(cmd, time.Minute, func(w explain.World, args []string) (plan, error) {
		wish.Only = o.inNamespace(strings.Join(args, ""))
		moves, err := explain.TransfersOf(w, wish)
		return plan{moves, func() bool { return moves.Problem(wish.Only != "") }, func(r *reader) (all [][]step) {
			for _, together := range moves.Together() {
				var steps []step
				for _, t := range together {
					steps = append(steps, step{
						key: t.Key(), ips: t.IPs, state: &t.State, why: &t.Why,
						begin:   func(ctx context.Context) error { return r.move(ctx, *t) },
						missing: func(w explain.World) string { return explain.Unfinished(w, t.Key(), leave) },
					})
				}
				all = append(all, steps)
			}
			return all
		}}, err
	})
}

func programs() string { return strings.Join(slices.Sorted(maps.Keys(explain.Programs)), ", ") }

// move makes the changes of t in the API server.
func (r *reader) move(ctx context.Context, t explain.Transfer) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		svc := &corev1.Service{}
		if err := r.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: t.Service}, svc); err != nil {
			return err
		}
		before := svc.DeepCopy()
		t.Annotate(svc)
		if err := r.Patch(ctx, svc, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return err
		}
		before = svc.DeepCopy()
		if !t.Clear(svc) {
			return nil
		}
		return r.Status().Patch(ctx, svc, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}
