package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"purelb.io/purelb/internal/buildinfo"
	"purelb.io/purelb/internal/explain"
)

func newReport(o *options) *cobra.Command {
	var open string
	cmd := &cobra.Command{
		Use: "report [FILE | --open FILE COMMAND]", Short: "Collect what a bug report needs into one archive, or look into one",
		Long: `Collect what a bug report needs into one archive: the objects that answers are made of,
/state, metrics and logs of all programs. Passwords, tokens, and what people wrote for
other programs are taken out, and Secrets are not read. Look through it before you pass
it on. What you may not read is listed in about.json.

With --open the other commands answer from an archive, without a cluster.`,
		Example: `  kubectl purelb report
  kubectl purelb report purelb-report.tar.gz
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
			return o.report(cmd.Context(), append(args, "")[0])
		},
	}
	cmd.Flags().StringVar(&open, "open", "", "Answer a command from this archive")
	cmd.Flags().SetInterspersed(false) // What follows belongs to the command of --open.
	return cmd
}

// runOn runs a command on an archive.
func (o *options) runOn(cmd *cobra.Command, name string, args []string) error {
	if len(args) == 0 {
		return errors.New("--open needs a command, such as status or explain")
	}
	inner := &options{in: o.in, out: o.out, errs: o.errs, archive: name}
	root := newRoot(inner)
	root.SetArgs(append([]string{"--output", o.output}, args...)) // It may stand before report, too.
	root.SetIn(o.in)
	root.SetOut(o.out)
	root.SetErr(o.errs)
	return root.ExecuteContext(cmd.Context())
}

// report collects a report into a file of that name, or of one with the time.
func (o *options) report(ctx context.Context, name string) error {
	if o.archive != "" || len(o.files) > 0 {
		return errors.New("report collects from a cluster, and neither from an archive nor from files")
	}
	r, err := o.newReader()
	if err != nil {
		return err
	}
	r.everything, r.about = true, url.Values{}
	w, err := r.read(ctx)
	if err != nil {
		return err
	}
	c, err := kubernetes.NewForConfig(r.config)
	if err != nil {
		return fmt.Errorf("make the client: %w", err)
	}
	files, err := collect(ctx, c, w)
	if err != nil {
		return err
	}
	name = cmp.Or(name, "purelb-report-"+w.Now.UTC().Format("20060102-150405")+".tar.gz")
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(writeArchive(file, files, w.Now), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = fmt.Fprintf(o.out, "%s has %d files. Look through it before you pass it on.\n", name, len(files))
	return err
}

// collect returns the files of a report about w.
func collect(ctx context.Context, c kubernetes.Interface, w explain.World) ([]archived, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var redact redactor
	redact.world(&w)
	a := about{Plugin: buildinfo.Version(), Time: w.Now, Namespace: w.Namespace, Unread: w.Unread, Uninstalled: w.Uninstalled, Unheard: w.Unheard, Missing: map[string]string{}}
	files := fetch(ctx, c, w.Pods, a.Missing)
	for i := range files {
		files[i].text = redact.file(files[i].text)
	}
	if a.Unheard != nil {
		a.Unheard.Why = redact.text(a.Unheard.Why)
	}
	for name, why := range a.Missing {
		a.Missing[name] = redact.text(why)
	}
	objects, err := objectsOf(w, &redact)
	if err != nil {
		return nil, fmt.Errorf("write the objects: %w", err)
	}
	said, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return nil, err
	}
	return append([]archived{{archiveAbout, said}, {archiveObjects, objects}}, files...), nil
}

// source is a file that a pod has.
type source struct {
	name string
	read func(context.Context) ([]byte, error)
}

// fetch reads what the programs in pods tell. Missing gets what could not be read.
func fetch(ctx context.Context, c kubernetes.Interface, pods []corev1.Pod, missing map[string]string) []archived {
	var sources []source
	for i := range pods {
		sources = append(sources, sourcesOf(c, &pods[i])...)
	}
	texts, errs := make([][]byte, len(sources)), make([]error, len(sources))
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i, s := range sources {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			texts[i], errs[i] = s.read(ctx)
		})
	}
	all.Wait()
	var files []archived
	for i, s := range sources {
		if errs[i] != nil {
			missing[s.name] = oneLine(errs[i])
			continue
		}
		files = append(files, archived{s.name, texts[i]})
	}
	return files
}

// lastLines is how much of a log is of interest.
const lastLines = 5000

// sourcesOf are the logs of the containers of p, and what the programs answer over HTTP.
func sourcesOf(c kubernetes.Interface, p *corev1.Pod) []source {
	var all []source
	pods := c.CoreV1().Pods(p.Namespace)
	for _, one := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		all = append(all, source{p.Name + "." + one.Name + ".log", func(ctx context.Context) ([]byte, error) {
			return pods.GetLogs(p.Name, &corev1.PodLogOptions{Container: one.Name, TailLines: new(int64(lastLines)), Timestamps: true}).DoRaw(ctx)
		}})
		for _, port := range one.Ports {
			if !strings.HasSuffix(port.Name, "monitoring") { // That of the speaker is bgp-monitoring.
				continue
			}
			for _, page := range []string{"state", "metrics"} {
				all = append(all, source{p.Name + "." + one.Name + "." + page, func(ctx context.Context) ([]byte, error) {
					return pods.ProxyGet("http", p.Name, fmt.Sprint(port.ContainerPort), "/"+page, nil).DoRaw(ctx)
				}})
			}
		}
	}
	slices.SortFunc(all, func(a, b source) int { return strings.Compare(a.name, b.name) })
	return all
}
