package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/service"
)

func newMove(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "move NAMESPACE/NAME NODE", Short: "Move the local addresses of a Service to another node",
		Long: `Move the local addresses of a Service to another node: a handover without a gap, in
which connections to the addresses break.

The Service gets the annotation ` + service.AnnotationNode + ` until the node has the addresses. They stay
there afterwards, as long as the node can have them, unless their ServiceGroup says
rebalanceAfter. To pin them, set the annotation yourself.

The exit code is 1 if the node did not take them in time. You need the right to patch
Services.`,
		Example: `  kubectl purelb move default/web node-2`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return withHelp(cmd, fmt.Errorf("%s needs two arguments, NAMESPACE/NAME and NODE, but there are %d", cmd.CommandPath(), len(args)))
			}
			return isService(args[0])
		},
	}
	return o.placing(cmd, func(w explain.World, args []string) (explain.Placements, error) {
		return explain.PlacementOf(w, args[0], args[1])
	})
}

func newRebalance(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "rebalance", Short: "Spread local addresses over the nodes again, as after a rolling reboot",
		Long: `Move the local addresses of Services to the nodes that would have them if all were new:
by the weights of their ServiceGroups, and then evenly by a hash of node and address. A
Service moves as a whole, by its first local address. Each move is a handover without a
gap, in which connections to the addresses break.

One Service after the other moves as by "kubectl purelb move". The command ends at the
first that does not move in time. Run it again to go on. With --dry-run nothing is changed.

The exit code is 1 if a Service did not move in time. You need the right to patch Services.`,
		Example: `  kubectl purelb rebalance --dry-run`,
		Args:    noArguments,
	}
	return o.placing(cmd, func(w explain.World, _ []string) (explain.Placements, error) { return explain.RebalancingOf(w) })
}

// placing completes cmd, which moves the Services that plan returns.
func (o *options) placing(cmd *cobra.Command, plan func(explain.World, []string) (explain.Placements, error)) *cobra.Command {
	var dry bool
	var limit time.Duration
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !dry && len(o.files) > 0 {
			return fmt.Errorf("%s changes a cluster; with files use --dry-run", cmd.CommandPath())
		}
		o.noBGP = true
		w, err := o.world(cmd.Context())
		if err != nil {
			return err
		}
		all, err := plan(w, args)
		if err != nil {
			return err
		}
		if !dry {
			if err := o.place(cmd.Context(), w, &all, limit); err != nil {
				return err
			}
		}
		return o.finish(all, all.Problem())
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "Change nothing")
	cmd.Flags().DurationVar(&limit, "timeout", 30*time.Second, "How long to wait for each Service")
	return cmd
}

// place moves one Service after the other, until one does not move in time.
func (o *options) place(ctx context.Context, w explain.World, all *explain.Placements, limit time.Duration) error {
	r, err := o.newReader()
	if err != nil {
		return err
	}
	for i := range all.Services {
		p := &all.Services[i]
		if p.State != explain.Ready {
			continue
		}
		why, err := o.placeOne(ctx, r, &w, *p, limit)
		if err != nil {
			why = oneLine(err)
		}
		if why != "" {
			p.State, p.Why = explain.Stopped, why
			return nil
		}
		p.State = explain.Done
		fmt.Fprintln(o.errs, p.Key()+": done")
	}
	return nil
}

// placeOne names the node of p in its Service until the addresses are there, and says what is missing when the
// time is over.
func (o *options) placeOne(ctx context.Context, r *reader, w *explain.World, p explain.Placement, limit time.Duration) (why string, err error) {
	if err := r.name(ctx, p, fmt.Sprintf("%q", p.To)); err != nil {
		return "", err
	}
	defer func() { // also if the user interrupts the command
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		err = errors.Join(err, r.name(last, p, "null"))
	}()
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return await(waiting, o, limit/100, func(ctx context.Context) (string, bool, error) {
		for i := range w.Services {
			if svc := &w.Services[i]; svc.Namespace == p.Namespace && svc.Name == p.Service {
				now := corev1.Service{}
				if err := r.Get(ctx, client.ObjectKeyFromObject(svc), &now); err != nil {
					return "", false, err
				}
				w.Services[i] = now
			}
		}
		why := explain.Placed(*w, p)
		return why, why == "", nil
	})
}

// name sets the node that the Service of p names, or removes it if node is "null".
func (r *reader) name(ctx context.Context, p explain.Placement, node string) error {
	svc := &corev1.Service{}
	svc.Namespace, svc.Name = p.Namespace, p.Service
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, service.AnnotationNode, node)
	if err := r.Patch(ctx, svc, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		return fmt.Errorf("set the annotation %s of Service %s: %w", service.AnnotationNode, p.Key(), err)
	}
	return nil
}
