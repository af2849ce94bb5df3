package main

import (
	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/explain"
)

func newInspect(o *options) *cobra.Command {
	cmd := o.command("inspect NAMESPACE/SERVICE", "Show all that is known of a Service: addresses, elections, announcements, BGP, endpoints",
		`Explain a Service as "explain service" does, with its endpoints. With -o json and yaml there
is also all that is known of it, part by part. The exit code is 1 if there is a problem.`,
		`  kubectl purelb inspect default/web
  kubectl purelb inspect default/web -o json`,
		oneArgument(isService), func(w explain.World, args []string) (answer, bool, error) {
			s, err := explain.Inspect(w, args[0])
			return s, s.Problem, err
		})
	cmd.PreRun = func(_ *cobra.Command, args []string) { o.endpointsOf = args[0] }
	return cmd
}
