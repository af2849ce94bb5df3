package main

import (
	"cmp"
	"runtime/debug"

	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/explain"
)

func newVersion(o *options) *cobra.Command {
	var clientOnly bool
	cmd := o.command("version", "Say which version the plugin is of, and what the cluster runs", "",
		`  kubectl purelb version
  kubectl purelb version --client`,
		cobra.NoArgs, func(w explain.World, _ []string) (answer, bool, error) {
			return explain.Versions(w, version()), false, nil
		})
	withCluster := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if clientOnly {
			return o.finish(explain.Version{Plugin: version()}, false)
		}
		return withCluster(cmd, args)
	}
	cmd.Flags().BoolVar(&clientOnly, "client", false, "Say only the version of the plugin, without asking a cluster")
	return cmd
}

// version is that of this binary, as the Go toolchain noted it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return cmp.Or(info.Main.Version, "unknown")
}
