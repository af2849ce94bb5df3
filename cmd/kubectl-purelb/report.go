package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"purelb.io/purelb/internal/buildinfo"
	"purelb.io/purelb/internal/explain"
)

func newReport(o *options) *cobra.Command {
	var open string
	var nodes []string
	cmd := &cobra.Command{
		Use: "report [FILE | --open FILE COMMAND]", Short: "Collect what a bug report needs into one archive, or look into one",
		Long: `Collect what a bug report needs into one archive: the objects that answers are made of,
/state, metrics and logs of all programs. Passwords, tokens, and what people wrote for
other programs are taken out, and Secrets are not read. Look through it before you pass
it on. What you may not read is listed in about.json.

In a cluster of many nodes it asks 64 pods: the allocators, those with problems, and some
others. about.json lists the pods that it leaves out; --node names the nodes to ask.

With --open the other commands answer from an archive, without a cluster.`,
		Example: `  kubectl purelb report
  kubectl purelb report purelb-report.tar.gz
  kubectl purelb report --node node-1 --node node-2
  kubectl purelb report --open purelb-report.tar.gz status
  kubectl purelb report --open purelb-report.tar.gz explain service default/web`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if open != "" {
				return o.runOn(cmd, open, args)
			}
			cmd.Flags().SetInterspersed(true)
			if err := cmd.Flags().Parse(args); err != nil { // Flags may follow the file.
				return err
			}
			if args = cmd.Flags().Args(); len(args) > 1 {
				return fmt.Errorf("report takes one file, and not %q", args)
			}
			return o.report(cmd.Context(), append(args, "")[0], nodes)
		},
	}
	cmd.Flags().StringVar(&open, "open", "", "Answer a command from this archive")
	cmd.Flags().StringSliceVar(&nodes, "node", nil, "Ask the agents and speakers of these nodes only")
	cmd.Flags().SetInterspersed(false) // The rest belongs to the command of --open.
	return cmd
}

// runOn runs a command on an archive.
func (o *options) runOn(cmd *cobra.Command, name string, args []string) error {
	if len(args) == 0 {
		return errors.New("--open needs a command, such as status or explain")
	}
	inner := &options{in: o.in, out: o.out, errs: o.errs, archive: name}
	root := newRoot(inner)
	root.SetArgs(append([]string{"--output", o.output}, args...)) // --output may also precede the word report.
	root.SetIn(o.in)
	root.SetOut(o.out)
	root.SetErr(o.errs)
	return root.ExecuteContext(cmd.Context())
}

// report writes a report to the file name. Without a name, it makes one from the time.
func (o *options) report(ctx context.Context, name string, nodes []string) error {
	if o.archive != "" || len(o.files) > 0 {
		return errors.New("report collects from a cluster, and neither from an archive nor from files")
	}
	r, err := o.newReader()
	if err != nil {
		return err
	}
	r.everything, r.asksAllocator = true, true
	w, err := r.read(ctx)
	if err != nil {
		return err
	}
	config := rest.CopyConfig(r.config)
	config.QPS = -1 // The fetchers limit the requests; the default of five a second is too slow.
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make the client: %w", err)
	}
	name = cmp.Or(name, "purelb-report-"+w.Now.UTC().Format("20060102-150405")+".tar.gz")
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	asked, left := podsToAsk(w, nodes)
	a := newArchive(file, w.Now)
	if err := errors.Join(collect(ctx, c, w, asked, left, a), a.Close(), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, errors.Join(err, os.Remove(name)))
	}
	fmt.Fprintf(o.out, "%s has %d files. Look through it before you pass it on.\n", name, a.files)
	if len(left) > 0 {
		fmt.Fprintf(o.out, "%d of %d pods were not asked for logs, /state and metrics; about.json lists them, and --node names the nodes to ask.\n", len(left), len(w.Pods))
	}
	return nil
}

// collect writes the files of a report about w. It asks the pods in asked, and lists the pods in
// left as left out.
func collect(ctx context.Context, c kubernetes.Interface, w explain.World, asked []corev1.Pod, left []string, to *archive) error {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	var redact redactor
	redact.world(&w)
	objects, err := objectsOf(w, &redact)
	if err != nil {
		return fmt.Errorf("write the objects: %w", err)
	}
	a := about{
		Plugin: buildinfo.Version(), Time: w.Now, Namespace: w.Namespace, Unread: w.Unread, Uninstalled: w.Uninstalled, Unheard: w.Unheard,
		Missing: map[string]string{}, Cut: map[string]string{}, LeftOut: left,
	}
	errs := []error{to.add(archiveObjects, objects)}
	for one := range fetch(ctx, c, asked) {
		switch {
		case one.err != nil:
			a.Missing[one.name] = redact.text(oneLine(one.err))
		default:
			errs = append(errs, to.add(one.name, redact.file(one.text)))
		}
		if one.cut != "" {
			a.Cut[one.name] = one.cut
		}
	}
	if a.Unheard != nil {
		a.Unheard.Why = redact.text(a.Unheard.Why)
	}
	said, err := json.MarshalIndent(a, "", "  ")
	return errors.Join(append(errs, err, to.add(archiveAbout, said))...)
}
