package main

import (
	"errors"

	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/explain"
)

// newBGP makes the commands about BGP. They show what the speakers report in their BGPNodeStatus.
func newBGP(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "bgp", Short: "Show how nodes speak BGP", Args: noArguments, RunE: help,
		Example: `  kubectl purelb bgp sessions
  kubectl purelb bgp dataplane --check`,
	}
	cmd.AddCommand(newSessions(o), newDataplane(o))
	return cmd
}

func newSessions(o *options) *cobra.Command {
	var node string
	var check bool
	cmd := o.command("sessions", "List the BGP sessions of all nodes", "",
		`  kubectl purelb bgp sessions
  kubectl purelb bgp sessions --check
  kubectl purelb bgp sessions --node node-1 -o json`,
		noArguments, func(w explain.World, _ []string) (answer, bool, error) {
			s, err := explain.SessionsOf(w, node)
			return s, check && len(s.Problems) > 0, err
		})
	cmd.Flags().StringVar(&node, "node", "", "Only this node")
	cmd.Flags().BoolVar(&check, "check", false, "Exit with 1 if there are problems")
	return cmd
}

func newDataplane(o *options) *cobra.Command {
	var f explain.DataplaneFilter
	var importOnly, exportOnly, check bool
	cmd := o.command("dataplane", "Show which addresses nodes announce by BGP, and which routes they have learned",
		`Show which addresses nodes announce by BGP, to whom, and for which Services, and which
routes they have learned and put into their routing tables.`,
		`  kubectl purelb bgp dataplane
  kubectl purelb bgp dataplane --check --import-only
  kubectl purelb bgp dataplane --node node-1`,
		noArguments, func(w explain.World, _ []string) (answer, bool, error) {
			if importOnly && exportOnly {
				return nil, false, errors.New("--import-only and --export-only leave nothing to show; use one of them")
			}
			f.NoImports, f.NoExports = exportOnly, importOnly
			d, err := explain.DataplaneOf(w, f)
			return d, check && len(d.Problems) > 0, err
		})
	flags := cmd.Flags()
	flags.StringVar(&f.Node, "node", "", "Only this node")
	flags.StringVar(&f.VRF, "vrf", "", "Only what is announced in this VRF: nothing, because VRFs are not supported")
	flags.BoolVar(&importOnly, "import-only", false, "Only what nodes announce")
	flags.BoolVar(&exportOnly, "export-only", false, "Only what nodes have learned")
	flags.BoolVar(&check, "check", false, "Exit with 1 if there are problems")
	return cmd
}
