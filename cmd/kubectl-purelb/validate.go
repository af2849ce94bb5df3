package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/explain"
)

func newValidate(o *options) *cobra.Command {
	var strict, against bool
	cmd := o.command("validate", "Check the configuration, of a cluster or of files",
		`Check ServiceGroups, LBNodeAgents, BGPConfigurations and what Services get from them,
by the schemas of the API server and the rules that PureLB's programs go by.

Each line is PASS, WARN or FAIL, with file and line of what is in a file. The exit code
is 1 if there is a FAIL, and with --strict also if there is a WARN.

With --against-cluster the files are looked at as if they were applied to the cluster:
which objects of the cluster they conflict with, which Services would wait, and which
would not change. Nothing is applied.`,
		`  # the cluster
  kubectl purelb validate

  # manifests, before they are applied
  kubectl purelb validate -f servicegroups.yaml -f overlays/

  # manifests, and what they would change in the cluster
  kubectl purelb validate -f servicegroups.yaml --against-cluster

  # what a chart makes, in a pipeline
  helm template purelb charts/purelb --namespace purelb-system | kubectl purelb validate --strict -f -`,
		noArguments, func(w explain.World, _ []string) (answer, bool, error) {
			v := explain.Validate(w)
			return v, v.Fail > 0 || strict && v.Warn > 0, nil
		})
	cmd.PreRun = func(*cobra.Command, []string) { o.judges = true }
	withWorld := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !against {
			return withWorld(cmd, args)
		}
		v, err := o.against(cmd.Context())
		if err != nil {
			return err
		}
		return o.finish(v, v.Fail > 0 || strict && v.Warn > 0)
	}
	cmd.Flags().BoolVar(&against, "against-cluster", false, "Look at the cluster as it would be with the files applied")
	cmd.Flags().BoolVar(&strict, "strict", false, "Exit with 1 on a WARN too")
	return cmd
}

// against validates the state that the cluster would have with the files applied.
func (o *options) against(ctx context.Context) (explain.Validation, error) {
	if len(o.files) == 0 {
		return explain.Validation{}, errors.New("--against-cluster needs files: name them with -f")
	}
	files, err := o.readFiles()
	if err != nil {
		return explain.Validation{}, err
	}
	live, err := o.clusterWorld(ctx)
	if err != nil {
		return explain.Validation{}, err
	}
	return explain.Against(live, files), nil
}
