package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/service"
)

func newMove(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "move NAME NODE", Short: "Move the local addresses of a Service to another node",
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
				return withHelp(cmd, fmt.Errorf("%s needs two arguments, NAME and NODE, but there are %d", cmd.CommandPath(), len(args)))
			}
			return o.isService(args[0])
		},
	}
	return o.placing(cmd, func(w explain.World, args []string) (explain.Placements, error) {
		return explain.PlacementOf(w, o.inNamespace(args[0]), args[1])
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

// placing completes cmd, which moves the Services that places returns.
func (o *options) placing(cmd *cobra.Command, places func(explain.World, []string) (explain.Placements, error)) *cobra.Command {
	return o.changing(cmd, 30*time.Second, func(w explain.World, args []string) (plan, error) {
		all, err := places(w, args)
		return plan{all, all.Problem, func(r *reader) (steps [][]step) {
			for i := range all.Services {
				if p := &all.Services[i]; p.State == explain.Ready {
					svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Service}}
					steps = append(steps, []step{{
						key: p.Key(), state: &p.State, why: &p.Why,
						begin:   func(ctx context.Context) error { return r.annotate(ctx, svc, service.AnnotationNode, p.To) },
						end:     func(ctx context.Context) error { return r.annotate(ctx, svc, service.AnnotationNode, nil) },
						missing: func(w explain.World) string { return explain.Placed(w, *p) },
					}})
				}
			}
			return steps
		}}, err
	})
}
