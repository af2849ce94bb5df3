package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/explain"
)

func newCheck(o *options) *cobra.Command {
	var before, wait bool
	var limit time.Duration
	cmd := &cobra.Command{
		Use: "check", Short: "Check the cluster, before PureLB is installed and after", Args: noArguments,
		Long: `Check the cluster, before PureLB is installed (--pre) and after: Kubernetes, the
installation, the configuration, the nodes, the routers and the Services.

Each line is fine (√), a fault (×), a warning (‼) or unknown (?), with the place in the
manual that says more. -o short leaves out what is fine. The exit code is 1 if there is a
fault. With --wait the command asks until there is neither a fault nor a warning that may
end by itself, such as programs of different versions in a rollout. If one is left when
the time is over, the exit code is 1. It does not wait for the end of other warnings, such
as that of another load balancer in the cluster.`,
		Example: `  kubectl purelb check --pre
  kubectl purelb check --wait --timeout 2m
  kubectl purelb check -o short`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(o.files) > 0 || o.archive != "" {
				return errors.New("check looks at a cluster, not at files; validate looks at files")
			}
			r, err := o.newReader()
			if err != nil {
				return err
			}
			var unread bool
			ask := func(ctx context.Context) (explain.Checkup, bool, error) {
				c, failed, err := r.checkUp(ctx, before)
				unread = failed
				return c, !wait || !c.Again() && !unread, err
			}
			var c explain.Checkup
			if wait {
				ctx, cancel := context.WithTimeout(cmd.Context(), limit)
				defer cancel()
				c, err = await(ctx, o, ask)
			} else {
				c, _, err = ask(cmd.Context())
			}
			if err != nil {
				return err
			}
			return o.finish(c, c.Bad() || wait && (c.Again() || unread))
		},
	}
	cmd.Flags().BoolVar(&before, "pre", false, "Check only what PureLB needs to be installed")
	cmd.Flags().BoolVar(&wait, "wait", false, "Wait until there is neither a fault nor a warning that may end by itself")
	cmd.Flags().DurationVar(&limit, "timeout", 5*time.Minute, "How long to wait")
	return cmd
}

// checkUp checks the cluster once. unread says that a part could not be read, and that another
// attempt may succeed.
func (r *reader) checkUp(ctx context.Context, before bool) (c explain.Checkup, unread bool, err error) {
	w, err := r.read(ctx)
	if err != nil {
		return explain.Checkup{}, false, fmt.Errorf("check the cluster: %w", err)
	}
	return explain.CheckUp(w, r.facts(ctx, before), before), w.Failed(), nil
}
