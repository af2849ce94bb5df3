package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

var (
	serviceNames = namesOf(explain.KindServices, func(o client.Object) string { return o.GetNamespace() + "/" + o.GetName() })
	// serviceNamespaces are the namespaces of Services.
	serviceNamespaces  = namesOf(explain.KindServices, client.Object.GetNamespace)
	groupNames         = namesOf(explain.KindGroups, client.Object.GetName)
	nodeNames          = namesOf(explain.KindNodes, client.Object.GetName)
	agentNames         = namesOf(explain.KindAgents, client.Object.GetName)
	configurationNames = namesOf(explain.KindConfigurations, client.Object.GetName)
)

// namesOf returns a function that returns a name of each object of a kind, sorted.
func namesOf(known string, name func(client.Object) string) func(explain.World) []string {
	return func(w explain.World) (names []string) {
		for _, o := range kindOf(known).objects(&inventory{World: w}) {
			names = append(names, name(o))
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
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
