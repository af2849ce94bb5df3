package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	"purelb.io/purelb/internal/buildinfo"
	"purelb.io/purelb/internal/explain"
)

func newReport(o *options) *cobra.Command {
	var nodes []string
	cmd := &cobra.Command{
		Use: "report [FILE]", Short: "Collect what a bug report needs into one archive",
		Long: `Collect what a bug report needs into one archive: the objects that answers are made of,
/state, metrics and logs of all programs. Passwords, tokens, and what people wrote for
other programs are taken out, and Secrets are not read. Look through it before you pass
it on. What you may not read is listed in about.txt. Other commands answer from an
unpacked archive, without a cluster.

In a cluster of many nodes it asks 64 pods: the allocators, those with problems, and some
others. about.txt lists the pods that it leaves out; --node names the nodes to ask.`,
		Example: `  kubectl purelb report
  kubectl purelb report purelb-report.tar.gz
  kubectl purelb report --node node-1 --node node-2

  # after "tar xf purelb-report.tar.gz"
  kubectl purelb status -f purelb-report/`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.report(cmd.Context(), append(args, "")[0], nodes)
		},
	}
	cmd.Flags().StringSliceVar(&nodes, "node", nil, "Ask the agents and speakers of these nodes only")
	return cmd
}

// The files of an archive. All are in one folder.
const (
	archiveFolder  = "purelb-report"
	archiveObjects = "objects.yaml"
	archiveAbout   = "about.txt"
)

// about is the content of archiveAbout.
type about struct {
	// Plugin is the version of the plugin that wrote the archive. Time is the API server's time.
	Plugin      string           `json:"plugin"`
	Time        time.Time        `json:"time"`
	Namespace   string           `json:"namespace"`
	Unread      []explain.Unread `json:"unknown"`
	Uninstalled string           `json:"uninstalled,omitempty"`
	// Missing are the files that could not be fetched, with the reasons.
	Missing map[string]string `json:"missing,omitempty"`
	// Cut are the files of which only a part was fetched.
	Cut []string `json:"cut,omitempty"`
	// LeftOut are the pods that were not asked for files, because there are too many.
	LeftOut []string `json:"leftOut,omitempty"`
}

// report writes a report to the file name. Without a name, it makes one from the time.
func (o *options) report(ctx context.Context, name string, nodes []string) error {
	r, err := o.cluster()
	if err != nil {
		return err
	}
	r.everything = true
	w, err := r.read(ctx)
	if err != nil {
		return err
	}
	name = cmp.Or(name, "purelb-report-"+w.Now.UTC().Format("20060102-150405")+".tar.gz")
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	asked, left := podsToAsk(w, nodes)
	n, err := r.collect(ctx, w, asked, left, file)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, errors.Join(err, os.Remove(name)))
	}
	fmt.Fprintf(o.out, "%s has %d files. Look through it before you pass it on.\n", name, n)
	if len(left) > 0 {
		fmt.Fprintf(o.out, "%d of %d pods were not asked for logs, /state and metrics; about.txt lists them, and --node names the nodes to ask.\n", len(left), len(w.Pods))
	}
	return nil
}

// collect writes the files of a report about w, and returns their number. It asks the pods in asked, and lists the
// pods in left as left out.
func (r *reader) collect(ctx context.Context, w explain.World, asked []corev1.Pod, left []string, out io.Writer) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchLimit)
	defer cancel()
	compressed := gzip.NewWriter(out)
	to := tar.NewWriter(compressed)
	var errs []error
	add := func(name string, text []byte) {
		n++
		errs = append(errs, to.WriteHeader(&tar.Header{Name: path.Join(archiveFolder, name), Mode: 0o600, Size: int64(len(text)), ModTime: w.Now}))
		_, err := to.Write(text)
		errs = append(errs, err)
	}
	var redact redactor
	objects, err := objectsOf(w, &redact)
	if err != nil {
		return 0, fmt.Errorf("write the objects: %w", err)
	}
	add(archiveObjects, objects)
	a := about{Plugin: buildinfo.Version(), Time: w.Now, Namespace: w.Namespace, Unread: w.Unread, Uninstalled: w.Uninstalled, Missing: map[string]string{}, LeftOut: left}
	for one := range fetch(ctx, r.pods, asked) {
		if one.err != nil {
			a.Missing[one.name] = redact.text(oneLine(one.err))
			continue
		}
		if one.cut {
			a.Cut = append(a.Cut, one.name)
		}
		add(one.name, redact.file(one.text))
	}
	said, err := json.MarshalIndent(a, "", "  ")
	add(archiveAbout, said)
	return n, errors.Join(append(errs, err, to.Close(), compressed.Close())...)
}

// objectsOf returns the objects of w as YAML, each in its own document.
func objectsOf(w explain.World, redact *redactor) ([]byte, error) {
	f := inventory{World: w}
	f.Services = slices.Concat(w.Services, w.Others)
	var trees []map[string]any
	for _, k := range kinds {
		for _, o := range k.objects(&f) {
			o.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
			tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				return nil, err
			}
			trees = append(trees, tree)
		}
	}
	redact.objects(trees)
	var all bytes.Buffer
	var documents printers.YAMLPrinter
	for _, tree := range trees {
		if err := documents.PrintObj(&unstructured.Unstructured{Object: tree}, &all); err != nil {
			return nil, err
		}
	}
	return all.Bytes(), nil
}
