package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/explain"
)

// completionTimeout is how long a user who presses tab may wait.
const completionTimeout = 3 * time.Second

// The names that complete arguments, by command, and values, by flag.
var (
	argumentNames = map[string]func(explain.World) []string{
		"inspect": serviceNames, "adopt": serviceNames, "leave": serviceNames, "move": serviceNames, "probe": addresses,
	}
	flagNames = map[string]func(explain.World) []string{
		"group": groupNames, "node": nodeNames, "simulate-drain": nodeNames, "ip": addresses,
	}
)

// addCompletion sets how a shell completes the arguments and flags of cmd and its subcommands.
func (o *options) addCompletion(cmd *cobra.Command) {
	for flag, names := range flagNames {
		if cmd.Flags().Lookup(flag) != nil {
			_ = cmd.RegisterFlagCompletionFunc(flag, o.complete(names)) // It fails only without the flag.
		}
	}
	if names := argumentNames[cmd.Name()]; names != nil {
		cmd.ValidArgsFunction = o.complete(names)
	} else if cmd.ValidArgsFunction == nil && cmd.Name() != "report" { // Its argument is a file.
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range cmd.Commands() {
		o.addCompletion(sub)
	}
}

// complete completes a word with names, and with nothing if the cluster cannot be read.
func (o *options) complete(names func(explain.World) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		w, err := o.world(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(w), cobra.ShellCompDirectiveNoFileComp
	}
}

func serviceNames(w explain.World) []string {
	var names []string
	for i := range w.Services {
		names = append(names, w.Services[i].Namespace+"/"+w.Services[i].Name)
	}
	return names
}

func groupNames(w explain.World) []string { return namesOf(w.Groups, (*v2.ServiceGroup).GetName) }

// namespaceNames returns the namespaces of Services.
func namespaceNames(w explain.World) []string {
	all := namesOf(w.Services, (*corev1.Service).GetNamespace)
	slices.Sort(all)
	return slices.Compact(all)
}

func nodeNames(w explain.World) []string { return namesOf(w.Nodes, (*corev1.Node).GetName) }

func agentNames(w explain.World) []string { return namesOf(w.Agents, (*v2.LBNodeAgent).GetName) }

func configurationNames(w explain.World) []string {
	return namesOf(w.Configurations, (*bgpv1.BGPConfiguration).GetName)
}

func namesOf[T any](all []T, name func(*T) string) (names []string) {
	for i := range all {
		names = append(names, name(&all[i]))
	}
	return names
}

func addresses(w explain.World) []string {
	var all []string
	for i := range w.Services {
		for _, in := range w.Services[i].Status.LoadBalancer.Ingress {
			all = append(all, in.IP)
		}
	}
	return all
}
