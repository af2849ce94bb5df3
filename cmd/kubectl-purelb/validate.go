package main

import (
	"errors"

	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/explain"
)

func newValidate(o *options) *cobra.Command {
	var strict, against bool
	cmd := &cobra.Command{
		Use: "validate", Short: "Check the configuration, of a cluster or of files", Args: noArguments,
		Long: `Check ServiceGroups, LBNodeAgents, BGPConfigurations and what Services get from them,
by the schemas of the API server and the rules that PureLB's programs go by.

Each line is PASS, WARN or FAIL, with file and line of what is in a file. The exit code
is 1 if there is a FAIL, and with --strict also if there is a WARN.

With --against-cluster the files are looked at as if they were applied to the cluster:
which objects of the cluster they conflict with, which Services would wait, and which
would not change. Nothing is applied.`,
		Example: `  # the cluster
  kubectl purelb validate

  # manifests, before they are applied
  kubectl purelb validate -f servicegroups.yaml -f overlays/

  # manifests, and what they would change in the cluster
  kubectl purelb validate -f servicegroups.yaml --against-cluster

  # what a chart makes, in a pipeline
  helm template purelb charts/purelb --namespace purelb-system | kubectl purelb validate --strict -f -`,
		PreRunE: func(*cobra.Command, []string) error {
			o.judges = true
			if against && len(o.files) == 0 {
				return errors.New("--against-cluster needs files: name them with -f")
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&against, "against-cluster", false, "Look at the cluster as it would be with the files applied")
	cmd.Flags().BoolVar(&strict, "strict", false, "Exit with 1 on a WARN too")
	return o.answering(cmd, func(w explain.World, _ []string) (answer, bool, error) {
		v := explain.Validate(w)
		if against {
			live, err := o.clusterWorld(cmd.Context())
			if err != nil {
				return nil, false, err
			}
			v = explain.Against(live, w)
		}
		return v, v.Fail > 0 || strict && v.Warn > 0, nil
	})
}
