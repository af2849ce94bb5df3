package main

import (
	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/buildinfo"
	"purelb.io/purelb/internal/explain"
)

func newVersion(o *options) *cobra.Command {
	var clientOnly bool
	cmd := o.command("version", "Show the version of the plugin, and what the cluster runs", "",
		`  kubectl purelb version
  kubectl purelb version --client`,
		noArguments, func(w explain.World, _ []string) (answer, bool, error) {
			return explain.Versions(w, buildinfo.Version()), false, nil
		})
	withCluster := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if clientOnly {
			return o.finish(explain.Version{Plugin: buildinfo.Version()}, false)
		}
		return withCluster(cmd, args)
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "Show only the version of the plugin, without asking a cluster")
	return cmd
}
