package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// withHelp returns an error about the command line that names the help of cmd.
func withHelp(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
}

// noArguments accepts no argument. If cmd has subcommands, an argument is a mistyped one.
func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !cmd.HasSubCommands():
		return withHelp(cmd, fmt.Errorf("%s takes no argument, but %q is one", cmd.CommandPath(), args[0]))
	}
	const typos = 2
	cmd.SuggestionsMinimumDistance = typos
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return withHelp(cmd, fmt.Errorf("%s has no command %q; did you mean %s?", cmd.CommandPath(), args[0], strings.Join(near, " or ")))
	}
	return withHelp(cmd, fmt.Errorf("%s has no command %q", cmd.CommandPath(), args[0]))
}

// oneArgument accepts one argument of the form that check accepts. The usage line of the command
// names it.
func oneArgument(check func(string) error) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			_, name, _ := strings.Cut(cmd.Use, " ")
			return withHelp(cmd, fmt.Errorf("%s needs one argument, %s, but there are %d", cmd.CommandPath(), name, len(args)))
		}
		return check(args[0])
	}
}

func isService(name string) error {
	if parts := strings.Split(name, "/"); len(parts) != 2 || slices.Contains(parts, "") {
		return fmt.Errorf("%q is not the name of a Service; write NAMESPACE/NAME, such as default/web", name)
	}
	return nil
}

func isAddress(text string) error {
	if _, err := netip.ParseAddr(text); err != nil {
		return fmt.Errorf("%q is not an IP address; write one such as 192.0.2.10 or 2001:db8::10", text)
	}
	return nil
}

func isName(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	return nil
}

// formats are the formats of --output.
func formats(cmd *cobra.Command) []string {
	all := []string{"table", "wide", "json", "yaml", "jsonpath="}
	switch cmd.Name() {
	case "check":
		all = append(all, "short")
	case "services", "pools":
		all = append(all, "name")
	}
	return all
}

// isFormat accepts the formats of --output.
func (o *options) isFormat(cmd *cobra.Command, _ []string) error {
	all := formats(cmd)
	form, template, is := strings.Cut(o.output, "=")
	if is && template != "" {
		form += "="
	}
	if slices.Contains(all, form) {
		return nil
	}
	return fmt.Errorf("--output %q is not an output format of %s; use %s", o.output, cmd.CommandPath(), strings.Join(all, ", "))
}

// hideConnection leaves kubectl's own flags, how to reach a cluster, out of the help of all commands
// below root. As in kubectl, the command options lists them.
func (o *options) hideConnection(root *cobra.Command) {
	connection := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.kube.AddFlags(connection)
	hide := func(hidden bool) {
		connection.VisitAll(func(f *pflag.Flag) { root.PersistentFlags().Lookup(f.Name).Hidden = hidden && f.Name != "namespace" })
	}
	usual := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		hide(true)
		defer hide(false)
		err := usual(cmd)
		fmt.Fprintln(cmd.OutOrStdout(), "\nUse \"kubectl purelb options\" for the flags that say how to reach a cluster.")
		return err
	})
	root.AddCommand(&cobra.Command{
		Use: "options", Short: "List the flags that say how to reach a cluster", Args: noArguments, Example: "  kubectl purelb options",
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprint(o.out, connection.FlagUsages())
			return err
		},
	})
}
