package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"purelb.io/purelb/internal/explain"
)

// document is one YAML document of a file.
type document struct {
	file string
	// line is that of its first line in the file.
	line int
	text []byte
}

// readFiles reads a world from the files.
func (o *options) readFiles() (explain.World, error) {
	docs, err := o.documents()
	if err != nil {
		return explain.World{}, err
	}
	l := newLoader(*o.kube.Namespace)
	for _, d := range docs {
		l.read(d)
	}
	return l.world(), nil
}

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
		paths, err := pathsOf(name)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			docs = append(docs, split(path, text)...)
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

// split returns the documents of text that have something.
func split(file string, text []byte) []document {
	var docs []document
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for line := 1; ; {
		doc, err := reader.Read()
		if doc = bytes.TrimSpace(doc); len(doc) > 0 {
			if i := bytes.Index(text, doc); i >= 0 {
				line += bytes.Count(text[:i], []byte("\n"))
				text = text[i:]
			}
			docs = append(docs, document{file, line, doc})
			line += bytes.Count(doc, []byte("\n"))
			text = bytes.TrimPrefix(text, doc)
		}
		if err != nil {
			return docs
		}
	}
}

// missing says which kinds files have none of.
func missing(w *explain.World) {
	for kind, n := range map[string]int{
		explain.KindServices: len(w.Services), explain.KindGroups: len(w.Groups), explain.KindAgents: len(w.Agents), explain.KindLeases: len(w.Leases),
		explain.KindNodes: len(w.Nodes), explain.KindPods: len(w.Pods), explain.KindNodeStatuses: len(w.NodeStatuses),
		explain.KindNetworks: len(w.Networks),
	} {
		if n == 0 {
			w.Unread = append(w.Unread, explain.Unread{Kind: kind, Why: "the files have none", Therefore: explain.Therefore(kind)})
		}
	}
	slices.SortFunc(w.Unread, func(a, b explain.Unread) int { return strings.Compare(a.Kind, b.Kind) })
}

// newest sets the time of w to that of its newest Lease: files show a cluster as it was
// then.
func newest(w *explain.World) {
	for _, o := range w.Leases {
		if t := o.Spec.RenewTime; t != nil && t.After(w.Now) {
			w.Now = t.Time
		}
	}
}

// complete fills in what the API server would, so that a Service of a manifest is read
// as the one that it becomes.
func complete(svc *corev1.Service) {
	if svc.Spec.ClusterIP == "" && svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
		svc.Spec.ClusterIP = "0.0.0.0" // It gets one when it is applied.
	}
	if len(svc.Spec.IPFamilies) > 0 {
		return
	}
	svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	if p := svc.Spec.IPFamilyPolicy; p != nil && *p != corev1.IPFamilyPolicySingleStack {
		svc.Spec.IPFamilies = append(svc.Spec.IPFamilies, corev1.IPv6Protocol)
	}
}
