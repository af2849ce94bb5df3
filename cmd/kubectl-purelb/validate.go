package main

import (
	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/explain"
)

func newValidate(o *options) *cobra.Command {
	var strict bool
	cmd := o.command("validate", "Check the configuration, of a cluster or of files",
		`Check ServiceGroups, LBNodeAgents, BGPConfigurations and what Services get from them,
by the rules that PureLB's programs go by.

Each line is PASS, WARN or FAIL, with file and line of what is in a file. The exit code
is 1 if there is a FAIL, and with --strict also if there is a WARN.`,
		`  # the cluster
  kubectl purelb validate

  # manifests, before they are applied
  kubectl purelb validate -f servicegroups.yaml -f overlays/

  # what a chart makes, in a pipeline
  helm template purelb charts/purelb | kubectl purelb validate --strict -f -`,
		cobra.NoArgs, func(w explain.World, _ []string) (answer, bool, error) {
			v := explain.Validate(w)
			return v, v.Fail > 0 || strict && v.Warn > 0, nil
		})
	cmd.Flags().BoolVar(&strict, "strict", false, "Exit with 1 on a WARN too")
	return cmd
}
