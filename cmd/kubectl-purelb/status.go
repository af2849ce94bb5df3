package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/explain"
)

func newStatus(o *options) *cobra.Command {
	var wait bool
	var limit time.Duration
	cmd := &cobra.Command{
		Use: "status", Short: "Show the state of PureLB on one screen", Args: noArguments,
		Long: `Show on one screen how PureLB is doing: its programs, pools, nodes, BGP and Services.

The exit code is 1 if there is a warning, or if a right is missing to know that there is
none. With --wait the command asks until there is no warning: all programs run, and all
Services have addresses that are announced. It goes on while the API server does not
answer. When the time is over, the exit code is 1 with the last answer, and 2 without any.`,
		Example: `  kubectl purelb status
  kubectl purelb status --wait --timeout 2m
  kubectl purelb status -o json`,
		PreRun: func(*cobra.Command, []string) { o.asksAllocator = true },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !wait || len(o.files) > 0 {
				w, err := o.world(cmd.Context())
				if err != nil {
					return err
				}
				s := explain.StatusOf(w)
				return o.finish(s, s.Overall != explain.OverallOK)
			}
			r, err := o.newReader()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), limit)
			defer cancel()
			s, err := await(ctx, o, pause, func(ctx context.Context) (explain.Status, bool, error) { return statusNow(r.read(ctx)) })
			if err != nil {
				return err
			}
			return o.finish(s, s.Overall != explain.OverallOK)
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "Wait until there is no warning")
	cmd.Flags().DurationVar(&limit, "timeout", 5*time.Minute, "How long to wait")
	return cmd
}

// statusNow returns the status of w. done is true if a longer wait cannot improve the status.
func statusNow(w explain.World, err error) (s explain.Status, done bool, _ error) {
	if err != nil {
		return explain.Status{}, false, err
	}
	s = explain.StatusOf(w)
	return s, s.Overall == explain.OverallOK || s.Overall == explain.OverallUnknown && !w.Failed(), nil
}
