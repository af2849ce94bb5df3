package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/buildinfo"
	"purelb.io/purelb/internal/explain"
)

func newPools(o *options) *cobra.Command {
	var f explain.Filter
	var services bool
	cmd := o.answering(&cobra.Command{
		Use: "pools", Short: "Show how full the ranges of addresses are", Args: noArguments,
		Example: `  kubectl purelb pools
  kubectl purelb pools --group default -o wide`,
	}, func(w explain.World, _ []string) (answer, bool, error) {
		f.Namespace = o.scope(w)
		if services && o.output == "table" {
			o.output = "wide"
		}
		p, err := explain.PoolsOf(w, f)
		return p, false, err
	})
	o.byNamespace(cmd)
	byGroup(cmd, &f.Pool, "Only the ranges of this ServiceGroup")
	cmd.Flags().BoolVar(&services, "show-services", false, "Name the Services below each range")
	return cmd
}

func newServices(o *options) *cobra.Command {
	var f explain.Filter
	cmd := o.answering(&cobra.Command{
		Use: "services", Short: "List the Services of PureLB: their addresses, who announces them, what is wrong", Args: noArguments,
		Long: `List the Services that PureLB serves, of all namespaces. Those of other controllers are
left out; -n selects a namespace. With --problems the exit code is 1 if there are any.`,
		Example: `  kubectl purelb services
  kubectl purelb services --problems
  kubectl purelb services --node node-1
  kubectl purelb services --ip 192.0.2.10
  kubectl purelb services -n shop`,
	}, func(w explain.World, _ []string) (answer, bool, error) {
		f.Namespace = o.scope(w)
		s, err := explain.ServicesOf(w, f)
		return s, f.Problems && s.Problems > 0, err
	})
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if f.IP == "" {
			return nil
		}
		if err := isAddress(f.IP); err != nil {
			return fmt.Errorf("--ip: %w", err)
		}
		return nil
	}
	flags := cmd.Flags()
	o.byNamespace(cmd)
	byGroup(cmd, &f.Pool, "Only Services with an address of this ServiceGroup")
	flags.StringVar(&f.Node, "node", "", "Only Services with an address on this node")
	flags.StringVar(&f.IP, "ip", "", "Only Services with this address")
	flags.BoolVar(&f.Problems, "problems", false, "Only Services with a problem")
	return cmd
}

func newElection(o *options) *cobra.Command {
	var drain string
	cmd := o.checking(&cobra.Command{
		Use: "election", Short: "Show which nodes can announce local addresses, and which do", Args: noArguments,
		Long: `Show which nodes can announce local addresses, and which do, by the Leases of their agents.
Agents hear of each other by gossip, and learn within a second of what the Leases show
minutes later.`,
		Example: `  kubectl purelb election
  kubectl purelb election --check
  kubectl purelb election --simulate-drain node-1`,
	}, func(w explain.World, node string) (answer, []string, error) {
		e, err := explain.ElectionOf(w, node, drain)
		return e, e.Problems, err
	})
	cmd.Flags().StringVar(&drain, "simulate-drain", "", "Show where the addresses of this node would go")
	return cmd
}

// checking completes cmd, which answers about all nodes or, with --node, about one. With --check it fails if there
// are problems.
func (o *options) checking(cmd *cobra.Command, ask func(w explain.World, node string) (a answer, problems []string, err error)) *cobra.Command {
	var node string
	var check bool
	cmd.Flags().StringVar(&node, "node", "", "Only this node")
	cmd.Flags().BoolVar(&check, "check", false, "Exit with 1 if there are problems")
	return o.answering(cmd, func(w explain.World, _ []string) (answer, bool, error) {
		a, problems, err := ask(w, node)
		return a, check && len(problems) > 0, err
	})
}

// byNamespace adds the flag that shows all namespaces in spite of -n.
func (o *options) byNamespace(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.everywhere, "all-namespaces", "A", false, "Show all namespaces, also with -n")
}

// byGroup adds the flag that selects a ServiceGroup, with its names in earlier versions.
func byGroup(cmd *cobra.Command, group *string, usage string) {
	cmd.Flags().StringVar(group, "group", "", usage)
	for _, old := range []string{"pool", "service-group"} {
		cmd.Flags().StringVar(group, old, "", usage)
		_ = cmd.Flags().MarkHidden(old) // It fails only without the flag.
	}
}

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
	return o.checking(&cobra.Command{
		Use: "sessions", Short: "List the BGP sessions of all nodes", Args: noArguments,
		Example: `  kubectl purelb bgp sessions
  kubectl purelb bgp sessions --check
  kubectl purelb bgp sessions --node node-1 -o json`,
	}, func(w explain.World, node string) (answer, []string, error) {
		s, err := explain.SessionsOf(w, node)
		return s, s.Problems, err
	})
}

func newDataplane(o *options) *cobra.Command {
	var importOnly, exportOnly bool
	var vrf string
	cmd := o.checking(&cobra.Command{
		Use: "dataplane", Short: "Show which addresses nodes announce by BGP, and which routes they have learned", Args: noArguments,
		Long: `Show which addresses nodes announce by BGP, to whom, and for which Services, and which
routes they have learned and put into their routing tables.`,
		Example: `  kubectl purelb bgp dataplane
  kubectl purelb bgp dataplane --check --import-only
  kubectl purelb bgp dataplane --node node-1`,
	}, func(w explain.World, node string) (answer, []string, error) {
		if importOnly && exportOnly {
			return nil, nil, errors.New("--import-only and --export-only leave nothing to show; use one of them")
		}
		d, err := explain.DataplaneOf(w, explain.DataplaneFilter{Node: node, NoImports: exportOnly || vrf != "", NoExports: importOnly})
		return d, d.Problems, err
	})
	flags := cmd.Flags()
	flags.StringVar(&vrf, "vrf", "", "Only what is announced in this VRF: nothing, because VRFs are not supported")
	flags.BoolVar(&importOnly, "import-only", false, "Only what nodes announce")
	flags.BoolVar(&exportOnly, "export-only", false, "Only what nodes have learned")
	return cmd
}

func newVersion(o *options) *cobra.Command {
	var clientOnly bool
	cmd := o.answering(&cobra.Command{
		Use: "version", Short: "Show the version of the plugin, and what the cluster runs", Args: noArguments,
		Example: `  kubectl purelb version
  kubectl purelb version --client`,
	}, func(w explain.World, _ []string) (answer, bool, error) {
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
