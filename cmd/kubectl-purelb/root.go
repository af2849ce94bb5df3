package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"purelb.io/purelb/internal/explain"
)

// installNamespace is the namespace in which the chart installs PureLB by default.
const installNamespace = "purelb-system"

// options are the settings that all commands share.
type options struct {
	in        io.Reader
	out, errs io.Writer
	// kube are kubectl's own flags. Their namespace is that of the object, as in kubectl.
	kube *genericclioptions.ConfigFlags
	// purelb is the namespace that PureLB is installed in, or "" to find it.
	purelb string
	// everywhere says that lists show all namespaces.
	everywhere bool
	// output is the format of the answer. files, if any, are read instead of a cluster.
	output string
	files  []string
	// judges says to judge the objects of files as an API server does.
	judges bool
	// endpointsOf is the Service, "namespace/name", whose endpoints the command needs.
	endpointsOf string
	// asksAllocator says that the command needs the state of the allocator.
	asksAllocator bool
	// noBGP says that the command needs no BGP objects, unless its subject needs them.
	noBGP bool
	// subject is what the command explains. It is nil for all other commands.
	subject *explain.Subject
}

func newRoot(o *options) *cobra.Command {
	o.kube = genericclioptions.NewConfigFlags(true)
	root := &cobra.Command{
		Use:   "kubectl-purelb",
		Short: "Show what PureLB does, what is wrong, and why",
		Long: `Show what PureLB does, what is wrong, and why.

Answers come from the objects of a cluster, or of files: -f takes manifests, the
output of Helm, and what "kubectl get -o yaml" prints. Nothing is changed, except by
"adopt", "leave", "move", "rebalance" and "ipam release-orphans --confirm". Where a right
to read is missing, the answer says what is unknown because of it.

The exit code is 0 when all is well, 1 when the answer tells of problems, and 2 when
there is no answer.`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl purelb"},
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noArguments,
		RunE:          help,
		// It runs before every command.
		PersistentPreRunE: o.isFormat,
	}
	root.SetFlagErrorFunc(withHelp)
	flags := root.PersistentFlags()
	o.kube.AddFlags(flags)
	if f := flags.Lookup("namespace"); f != nil {
		f.Usage = "The namespace of the object; lists show only this namespace, unless it is that of PureLB"
	}
	flags.StringVar(&o.purelb, "purelb-namespace", "", "The namespace that PureLB is installed in, if it cannot be found")
	flags.StringVarP(&o.output, "output", "o", "table", "The form of the answer: table, wide, json, yaml, jsonpath=TEMPLATE; of lists also name")
	flags.StringSliceVarP(&o.files, "filename", "f", nil, "Files or directories with objects, - for standard input, in place of the cluster")
	root.AddCommand(newStatus(o), newPools(o), newServices(o), newElection(o), newBGP(o), newExplain(o), newInspect(o), newProbe(o), newIPAM(o), newImport(o), newAdopt(o), newLeave(o), newMove(o), newRebalance(o), newWatch(o), newCheck(o), newDashboard(o), newValidate(o), newReport(o), newVersion(o))
	o.hideConnection(root)
	_ = root.RegisterFlagCompletionFunc("output", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return formats(cmd), cobra.ShellCompDirectiveNoFileComp
	})
	_ = root.RegisterFlagCompletionFunc("namespace", o.complete(serviceNamespaces))
	o.addCompletion(root)
	return root
}

// help prints the help of a command that has only subcommands. Without it, cobra would print the
// help for a mistyped subcommand and exit with 0.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// world reads the files, if there are any, and otherwise the cluster.
func (o *options) world(ctx context.Context) (explain.World, error) {
	if len(o.files) > 0 {
		return o.readFiles()
	}
	return o.clusterWorld(ctx)
}

// clusterWorld reads the cluster.
func (o *options) clusterWorld(ctx context.Context) (explain.World, error) {
	r, err := o.newReader()
	if err != nil {
		return explain.World{}, err
	}
	return r.read(ctx)
}

// answer is what a command prints.
type answer interface{ Tables() []explain.Table }

// answering completes cmd, which reads a world and prints an answer. run makes the answer, and reports whether it
// has problems.
func (o *options) answering(cmd *cobra.Command, run func(explain.World, []string) (a answer, problems bool, err error)) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w, err := o.world(cmd.Context())
		if err != nil {
			return err
		}
		if w.Uninstalled != "" {
			fmt.Fprintln(o.errs, "note:", w.Uninstalled)
		}
		if len(o.files) > 0 && w.Guessed && w.Namespace != installNamespace {
			fmt.Fprintf(o.errs, "note: nothing shows where PureLB is; namespace %s is assumed, because its configuration is there; --purelb-namespace names another\n", w.Namespace)
		}
		a, problems, err := run(w, args)
		if err != nil {
			return err
		}
		return o.finish(a, problems)
	}
	return cmd
}

// finish prints a. It returns errProblems if problems is true.
func (o *options) finish(a answer, problems bool) error {
	if err := o.print(a); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	if problems {
		return errProblems
	}
	return nil
}

// timeout is how long one reading of a cluster may take.
const timeout = 30 * time.Second
