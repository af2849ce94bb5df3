package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/explain"
)

// document is one YAML document of a file.
type document struct {
	file string
	// line is the number of the document's first line in the file.
	line int
	text []byte
	// found says that the file was found in a folder, and not named.
	found bool
}

var yamlLine = regexp.MustCompile(`^.*?line (\d+): `)

// fault returns err, which a parser of YAML found in d, with the line in the file.
func (d document) fault(err error) error {
	text, line := oneLine(err), d.line
	if at := yamlLine.FindStringSubmatch(text); at != nil {
		n, _ := strconv.Atoi(at[1]) // The expression accepts only digits.
		text, line = text[len(at[0]):], line+n-1
	}
	if strings.Contains(text, "invalid map key") {
		text = "a key is not text"
	}
	return fmt.Errorf("%s:%d: this is not YAML: %s", d.file, line, text)
}

// readFiles reads a world from the files.
func (o *options) readFiles() (explain.World, error) {
	docs, err := o.documents()
	if err != nil {
		return explain.World{}, err
	}
	l := &loader{judges: o.judges}
	l.w.Namespace = o.purelb
	l.w.Origins = map[explain.Object]explain.Origin{}
	var errs []error
	for _, d := range docs {
		errs = append(errs, l.read(d))
	}
	if err := errors.Join(errs...); err != nil {
		return explain.World{}, err
	}
	for _, note := range l.notes {
		fmt.Fprintln(o.errs, "note:", note)
	}
	if len(l.pending) == 0 && len(l.w.Mistakes) == 0 {
		return explain.World{}, fmt.Errorf("%s: no ServiceGroup, LBNodeAgent, BGPConfiguration, Service or other object that PureLB reads", strings.Join(o.files, ", "))
	}
	homes := l.find(*o.kube.Namespace)
	w := l.world()
	if o.endpointsOf != "" && len(w.EndpointSlices) == 0 && !explain.NeedsEndpoints(w) {
		w.Unread = append(w.Unread, explain.NewUnread(explain.KindEndpoints, explain.Absent, ""))
	}
	return w, misplaced(w, homes)
}

// misplaced returns an error if PureLB is in homes, and not in the namespace of w.
func misplaced(w explain.World, homes []string) error {
	if len(homes) == 0 || slices.Contains(homes, w.Namespace) {
		return nil
	}
	return fmt.Errorf("%w %s, but in %s: use --purelb-namespace %s", errElsewhere, w.Namespace, strings.Join(homes, " and "), homes[0])
}

// errElsewhere means that PureLB is in another namespace.
var errElsewhere = errors.New("PureLB is not in namespace")

// documents returns the documents of all files, in their order.
func (o *options) documents() ([]document, error) {
	var docs []document
	for _, name := range o.files {
		if name == "-" {
			text, err := io.ReadAll(o.in)
			if err != nil {
				return nil, fmt.Errorf("read standard input: %w", err)
			}
			docs = append(docs, split("stdin", text)...)
			continue
		}
		if strings.Contains(name, "://") {
			return nil, fmt.Errorf("-f takes files and directories, but %s is a URL; download it first, or pipe it to -f -", name)
		}
		paths, err := pathsOf(name)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			for _, d := range split(path, text) {
				d.found = path != name
				docs = append(docs, d)
			}
		}
	}
	return docs, nil
}

// pathsOf returns name, or the manifests below it if it is a directory.
func pathsOf(name string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if path == name || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			paths = append(paths, path)
		}
		return nil
	})
	return paths, err
}

// split returns the documents of text that are not empty. The separator is a line with only "---",
// or one that begins with "---" and a space (YAML 1.2, section 9.1.2).
func split(file string, text []byte) []document {
	var docs []document
	d := document{file: file}
	end := func() {
		if d.text = bytes.TrimRight(d.text, "\n"); len(d.text) > 0 {
			docs = append(docs, d)
		}
		d = document{file: file}
	}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		line = bytes.TrimRight(line, " \t\r\n")
		if rest, separates := separated(line); separates {
			end()
			line = rest
		}
		if len(d.text) == 0 {
			if len(line) == 0 {
				continue
			}
			d.line = n
		}
		d.text = append(append(d.text, line...), '\n')
	}
	end()
	return docs
}

// separated returns the rest of a line that begins with a document separator. ok is false for
// other lines.
func separated(line []byte) (rest []byte, ok bool) {
	rest, ok = bytes.CutPrefix(line, []byte("---"))
	if !ok || len(rest) > 0 && rest[0] != ' ' && rest[0] != '\t' {
		return line, false
	}
	return bytes.TrimSpace(rest), true
}

// missing marks the kinds that have no objects in the files as unread. A cluster need not speak BGP.
func (f *inventory) missing() {
	for _, k := range kinds {
		if !k.later && k.known != explain.KindConfigurations && len(k.objects(f)) == 0 {
			f.Unread = append(f.Unread, explain.NewUnread(k.known, explain.Absent, ""))
		}
	}
	if len(f.EndpointSlices) == 0 && explain.NeedsEndpoints(f.World) {
		f.Unread = append(f.Unread, explain.NewUnread(explain.KindEndpoints, explain.Absent, ""))
	}
	slices.SortFunc(f.Unread, func(a, b explain.Unread) int { return strings.Compare(a.Kind, b.Kind) })
}

// newest sets the time of w to the time of its newest Lease, because files show a past state.
func newest(w *explain.World) {
	for _, o := range w.Leases {
		if t := renewal(o); t.After(w.Now) {
			w.Now = t
		}
	}
}

// complete sets the fields of a Service in a manifest that the API server would set.
func (l *loader) complete(svc *corev1.Service) {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	if svc.Spec.ClusterIP == "" {
		svc.Spec.ClusterIP = "0.0.0.0" // The API server assigns one later.
	}
	if len(svc.Spec.IPFamilies) > 0 {
		return
	}
	l.guess(explain.Object{Kind: "Service", Namespace: svc.Namespace, Name: svc.Name}, explain.FieldFamilies,
		"the cluster chooses the families, and the plugin assumes IPv4 first")
	svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	if p := svc.Spec.IPFamilyPolicy; p != nil && *p != corev1.IPFamilyPolicySingleStack {
		svc.Spec.IPFamilies = append(svc.Spec.IPFamilies, corev1.IPv6Protocol)
	}
}
