package main

import (
	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/explain"
)

func newInspect(o *options) *cobra.Command {
	cmd := o.command("inspect NAMESPACE/SERVICE", "Show all that is known of a Service: addresses, elections, announcements, BGP, endpoints",
		`Show all that is known of a Service, part by part, for people who look for a fault and for
scripts. "explain service" says why in sentences. The exit code is 1 if there is a problem.`,
		`  kubectl purelb inspect default/web
  kubectl purelb inspect default/web -o json`,
		oneArgument(isService), func(w explain.World, args []string) (answer, bool, error) {
			i, problem, err := explain.Inspect(w, args[0])
			return i, problem, err
		})
	cmd.PreRun = func(_ *cobra.Command, args []string) { o.endpointsOf = args[0] }
	return cmd
}
