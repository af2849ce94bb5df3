package main

import (
	"context"

	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/explain"
)

func newStatus(o *options) *cobra.Command {
	return waiting(o, &cobra.Command{
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
	}, "Wait until there is no warning",
		func(ctx context.Context) (explain.Status, bool, error) { return statusNow(o.world(ctx)) },
		func(s explain.Status) bool { return s.Overall != explain.OverallOK })
}

// statusNow returns the status of w. done is true if a longer wait cannot improve the status.
func statusNow(w explain.World, err error) (s explain.Status, done bool, _ error) {
	if err != nil {
		return explain.Status{}, false, err
	}
	s = explain.StatusOf(w)
	return s, s.Overall == explain.OverallOK || s.Overall == explain.OverallUnknown && !w.Failed(), nil
}
