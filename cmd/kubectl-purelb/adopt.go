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
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/explain"
)

func newAdopt(o *options) *cobra.Command {
	return o.transferring(false, &cobra.Command{
		Use: "adopt [-A | NAMESPACE/NAME]", Short: "Take over Services from another load balancer, with their addresses",
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
		Use: "leave [-A | NAMESPACE/NAME]", Short: "Leave Services to another load balancer, with their addresses",
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

// transferring completes cmd, which moves Services.
func (o *options) transferring(leave bool, cmd *cobra.Command) *cobra.Command {
	wish := explain.Wish{Leave: leave}
	var all, dry bool
	var limit time.Duration
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case all && len(args) == 0:
			return nil
		case all:
			return withHelp(cmd, errors.New("-A is for all Services, so there must be no argument"))
		}
		return oneArgument(isService)(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		_, known := explain.Programs[wish.From]
		switch {
		case wish.From != "" && !known:
			return fmt.Errorf("--from %q is no load balancer that adopt knows; use %s", wish.From, programs())
		case !dry && len(o.files) > 0:
			return fmt.Errorf("%s changes a cluster; with files use --dry-run", cmd.CommandPath())
		}
		wish.Only, o.noBGP = strings.Join(args, ""), true
		w, err := o.world(cmd.Context())
		if err != nil {
			return err
		}
		if w.Uninstalled != "" {
			fmt.Fprintln(o.errs, "note:", w.Uninstalled)
		}
		moves, err := explain.TransfersOf(w, wish)
		if err != nil {
			return err
		}
		if !dry {
			if err := o.transfer(cmd.Context(), w, &moves, leave, limit); err != nil {
				return err
			}
		}
		return o.finish(moves, moves.Problem(wish.Only != ""))
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "All Services")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "Change nothing")
	cmd.Flags().DurationVar(&limit, "timeout", time.Minute, "How long to wait for each Service")
	if !leave {
		cmd.Flags().StringVar(&wish.From, "from", "", "Only Services of this load balancer: "+programs())
		_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions(slices.Sorted(maps.Keys(explain.Programs)), cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}

func programs() string { return strings.Join(slices.Sorted(maps.Keys(explain.Programs)), ", ") }

// transfer moves the Services that are ready, one address after the other, until one is not done in time.
func (o *options) transfer(ctx context.Context, w explain.World, moves *explain.Transfers, leave bool, limit time.Duration) error {
	r, err := o.newReader()
	if err != nil {
		return err
	}
	r.find(ctx)
	for i := range moves.Services {
		if moves.Services[i].State != explain.Ready {
			continue
		}
		all := moves.Together(i)
		for n, t := range all {
			if err := r.move(ctx, *t); err != nil {
				for _, before := range all[:n] {
					before.State, before.Why = explain.Stopped, t.Key()+", which shares its address, was not changed"
				}
				t.State, t.Why = explain.Stopped, oneLine(err)
				return nil
			}
		}
		for _, t := range all {
			if why := o.awaited(ctx, r, &w, *t, leave, limit); why != "" {
				t.State, t.Why = explain.Stopped, why
				return nil
			}
			t.State, t.Why = explain.Done, ""
			fmt.Fprintln(o.errs, t.Key()+": done")
		}
	}
	return nil
}

// awaited waits until t is done, and says what is missing when the time is over.
func (o *options) awaited(ctx context.Context, r *reader, w *explain.World, t explain.Transfer, leave bool, limit time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	why, err := await(ctx, o, limit/100, func(ctx context.Context) (string, bool, error) { return r.unfinished(ctx, w, t, leave) })
	if err != nil {
		return oneLine(err)
	}
	return why
}

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

// unfinished reads the Services with the addresses of t again into w, and the Leases, which say which addresses
// nodes have as their own. It says what is missing until t is done.
func (r *reader) unfinished(ctx context.Context, w *explain.World, t explain.Transfer, leave bool) (why string, done bool, _ error) {
	for i := range w.Services {
		old := &w.Services[i]
		if old.Namespace+"/"+old.Name != t.Key() && !slices.ContainsFunc(old.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) bool { return slices.Contains(t.IPs, in.IP) }) {
			continue
		}
		svc := corev1.Service{}
		if err := r.Get(ctx, client.ObjectKeyFromObject(old), &svc); err != nil {
			return "", false, err
		}
		w.Services[i] = svc
	}
	var leases coordinationv1.LeaseList
	if err := r.List(ctx, &leases, client.InNamespace(r.namespace)); err != nil {
		return "", false, err
	}
	w.Leases = ofNodes(leases.Items)
	why = explain.Unfinished(*w, t.Key(), leave)
	return why, why == "", nil
}
