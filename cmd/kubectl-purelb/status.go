package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/explain"
)

func newStatus(o *options) *cobra.Command {
	var wait bool
	var limit time.Duration
	cmd := &cobra.Command{
		Use: "status", Short: "Say on one screen how PureLB fares", Args: cobra.NoArgs,
		Long: `Say on one screen how PureLB fares: its programs, pools, nodes, BGP and Services.

The exit code is 1 if there is a warning, or if a right is missing to know that there is
none. With --wait the command asks until there is no warning: all programs run, and all
Services have addresses that are announced. It goes on while the API server does not
answer. When the time is over, the exit code is 1 with the last answer, and 2 without any.`,
		Example: `  kubectl purelb status
  kubectl purelb status --wait --timeout 2m
  kubectl purelb status -o json`,
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
			s, err := o.await(ctx, r.read)
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

// await reads until all is well or ctx ends, and returns the last answer. It fails if there
// was none, or if asking again cannot help.
func (o *options) await(ctx context.Context, read func(context.Context) (explain.World, error)) (explain.Status, error) {
	var last *explain.Status
	var said string
	for {
		w, err := read(ctx)
		switch {
		case err == nil:
			s := explain.StatusOf(w)
			last, said = &s, ""
			if s.Overall == explain.OverallOK || s.Overall == explain.OverallUnknown && !w.Failed() {
				return s, nil
			}
		case ctx.Err() == nil && hopeless(err):
			return explain.Status{}, err
		case ctx.Err() == nil && err.Error() != said:
			said = err.Error()
			fmt.Fprintln(o.errs, "asking again:", said)
		}
		if !again(ctx) {
			if last == nil {
				return explain.Status{}, fmt.Errorf("there was no answer in time: %w", err)
			}
			return *last, nil
		}
	}
}

// again waits a moment, and reports whether there is time left.
func again(ctx context.Context) bool {
	t := time.NewTimer(2 * time.Second)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
