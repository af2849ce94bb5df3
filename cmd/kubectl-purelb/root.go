package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"purelb.io/purelb/internal/explain"
)

// installNamespace is where the chart puts PureLB unless told otherwise.
const installNamespace = "purelb-system"

// options are what all commands have in common.
type options struct {
	in        io.Reader
	out, errs io.Writer
	// kube are kubectl's own flags. The namespace is that of PureLB.
	kube *genericclioptions.ConfigFlags
	// output is the form of the answer, and files are read in place of a cluster.
	output string
	files  []string
	// archive is a report that is read in place of a cluster.
	archive string
	// endpointsOf is a Service, "namespace/name", whose endpoints are asked for.
	endpointsOf string
	// about are the parameters of the question to the allocator. It is nil if the command does
	// not ask the allocator.
	about url.Values
	// noBGP says that the command needs no objects of BGP, unless its subject does.
	noBGP bool
	// subject is what the command explains. It is nil for all other commands.
	subject *explain.Subject
}

func newRoot(o *options) *cobra.Command {
	namespace := installNamespace
	o.kube = genericclioptions.NewConfigFlags(true)
	o.kube.Namespace = &namespace
	root := &cobra.Command{
		Use:   "kubectl-purelb",
		Short: "Show what PureLB does, what is wrong, and why",
		Long: `Show what PureLB does, what is wrong, and why.

Answers come from the objects of a cluster, or of files: -f takes manifests, the
output of Helm, and what "kubectl get -o yaml" prints. Nothing is changed. Where a
right to read is missing, the answer says what is unknown because of it.

The exit code is 0 when all is well, 1 when the answer tells of problems, and 2 when
there is no answer.`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl purelb"},
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          help,
	}
	flags := root.PersistentFlags()
	o.kube.AddFlags(flags)
	if f := flags.Lookup("namespace"); f != nil {
		f.Usage = "The namespace that PureLB is installed in"
	}
	flags.StringVarP(&o.output, "output", "o", "table", "The form of the answer: table, json or yaml")
	flags.StringSliceVarP(&o.files, "filename", "f", nil, "Files or directories with objects, - for standard input, in place of the cluster")
	root.AddCommand(newStatus(o), newPools(o), newServices(o), newElection(o), newBGP(o), newExplain(o), newInspect(o), newProbe(o), newCheck(o), newDashboard(o), newValidate(o), newReport(o), newVersion(o))
	return root
}

// help is what a command does that only has commands below it. Without it cobra would print the
// help for a mistyped command below it, and exit with 0.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// world reads the cluster, or the files in its place.
func (o *options) world(ctx context.Context) (explain.World, error) {
	if len(o.files) > 0 {
		return o.readFiles()
	}
	return o.clusterWorld(ctx)
}

// clusterWorld reads the cluster, or the archive in its place.
func (o *options) clusterWorld(ctx context.Context) (explain.World, error) {
	if o.archive != "" {
		return o.openArchive(o.archive)
	}
	r, err := o.newReader()
	if err != nil {
		return explain.World{}, err
	}
	return r.read(ctx)
}

// answer is what a command prints.
type answer interface{ Tables() []explain.Table }

// command is one that reads a world and prints an answer. Its answer may tell of
// problems.
func (o *options) command(use, short, long, example string, args cobra.PositionalArgs,
	run func(explain.World, []string) (a answer, problems bool, err error),
) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := o.world(cmd.Context())
			if err != nil {
				return err
			}
			a, problems, err := run(w, args)
			if err != nil {
				return err
			}
			return o.finish(a, problems)
		},
	}
}

// finish prints a, and returns errProblems if there are any.
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
