package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/explain"
)

func newPools(o *options) *cobra.Command {
	var group string
	var services bool
	cmd := o.command("pools", "Show how full the ranges of addresses are", "",
		`  kubectl purelb pools
  kubectl purelb pools --service-group default --show-services`,
		noArguments, func(w explain.World, _ []string) (answer, bool, error) {
			p, err := explain.PoolsOf(w, group, services)
			return p, false, err
		})
	cmd.Flags().StringVar(&group, "service-group", "", "Only the ranges of this ServiceGroup")
	cmd.Flags().BoolVar(&services, "show-services", false, "Name the Services below each range")
	return cmd
}

func newServices(o *options) *cobra.Command {
	var f explain.Filter
	var all bool
	cmd := o.command("services", "List the Services of PureLB: their addresses, who announces them, what is wrong",
		`List the Services that PureLB serves, of all namespaces. Those of other controllers are
left out. With --problems the exit code is 1 if there are any.`,
		`  kubectl purelb services
  kubectl purelb services --problems
  kubectl purelb services --node node-1
  kubectl purelb services --ip 192.0.2.10`,
		noArguments, func(w explain.World, _ []string) (answer, bool, error) {
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
	flags.BoolVarP(&all, "all-namespaces", "A", true, "Services of all namespaces, which is always so")
	flags.StringVar(&f.Pool, "pool", "", "Only Services with an address of this ServiceGroup")
	flags.StringVar(&f.Node, "node", "", "Only Services with an address on this node")
	flags.StringVar(&f.IP, "ip", "", "Only Services with this address")
	flags.BoolVar(&f.Problems, "problems", false, "Only Services with a problem")
	return cmd
}

func newElection(o *options) *cobra.Command {
	var node, drain string
	var check bool
	cmd := o.command("election", "Show which nodes can announce local addresses, and which do",
		`Show which nodes can announce local addresses, and which do, by the Leases of their agents.
Agents hear of each other by gossip, and learn within a second of what the Leases show
minutes later.`,
		`  kubectl purelb election
  kubectl purelb election --check
  kubectl purelb election --simulate-drain node-1`,
		noArguments, func(w explain.World, _ []string) (answer, bool, error) {
			e, err := explain.ElectionOf(w, node, drain)
			return e, check && len(e.Problems) > 0, err
		})
	cmd.Flags().StringVar(&node, "node", "", "Only this node")
	cmd.Flags().StringVar(&drain, "simulate-drain", "", "Show where the addresses of this node would go")
	cmd.Flags().BoolVar(&check, "check", false, "Exit with 1 if there are problems")
	return cmd
}
