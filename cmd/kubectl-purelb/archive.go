package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/explain"
)

// The files of an archive. All are in one folder.
const (
	archiveFolder  = "purelb-report"
	archiveObjects = "objects.yaml"
	archiveAbout   = "about.json"
)

// about is the content of archiveAbout.
type about struct {
	// Plugin is the version of the plugin that wrote the archive. Time is the API server's time.
	Plugin      string           `json:"plugin"`
	Time        time.Time        `json:"time"`
	Namespace   string           `json:"namespace"`
	Unread      []explain.Unread `json:"unknown"`
	Uninstalled string           `json:"uninstalled,omitempty"`
	// Unheard says why the state of the allocator is missing.
	Unheard *explain.Unread `json:"unheard,omitempty"`
	// Missing are the files that could not be fetched, with the reasons.
	Missing map[string]string `json:"missing,omitempty"`
	// Cut are the incomplete files, with a description of the missing part.
	Cut map[string]string `json:"cut,omitempty"`
	// LeftOut are the pods that were not asked for files, because there are too many.
	LeftOut []string `json:"leftOut,omitempty"`
}

// archive is a compressed archive that is written file by file.
type archive struct {
	*tar.Writer
	compressed *gzip.Writer
	at         time.Time
	files      int
}

func newArchive(to io.Writer, at time.Time) *archive {
	compressed := gzip.NewWriter(to)
	return &archive{tar.NewWriter(compressed), compressed, at, 0}
}

// add writes one file.
func (a *archive) add(name string, text []byte) error {
	head := &tar.Header{Name: path.Join(archiveFolder, name), Mode: 0o600, Size: int64(len(text)), ModTime: a.at}
	if err := a.WriteHeader(head); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err := a.Write(text); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	a.files++
	return nil
}

// Close writes the end of the archive.
func (a *archive) Close() error { return errors.Join(a.Writer.Close(), a.compressed.Close()) }

// mostArchived is how many bytes of a file in an archive are read.
const mostArchived = 1 << 30

// readArchive returns the files of an archive by their names.
func readArchive(name string) (map[string][]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	compressed, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s is not a report of this plugin: %w", name, err)
	}
	files := map[string][]byte{}
	for r := tar.NewReader(compressed); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s is not a report of this plugin, or is cut off: %w", name, err)
		}
		text, err := io.ReadAll(io.LimitReader(r, mostArchived))
		if err != nil {
			return nil, fmt.Errorf("%s is cut off at %s: %w", name, head.Name, err)
		}
		files[path.Base(head.Name)] = text
	}
}

// openArchive returns the world that an archive was made from.
func (o *options) openArchive(name string) (explain.World, error) {
	files, err := readArchive(name)
	if err != nil {
		return explain.World{}, err
	}
	var a about
	if err := json.Unmarshal(files[archiveAbout], &a); err != nil {
		return explain.World{}, fmt.Errorf("%s is not a report of this plugin: %s: %w", name, archiveAbout, err)
	}
	l := newLoader(a.Namespace)
	for _, d := range split(archiveObjects, files[archiveObjects]) {
		l.read(d)
	}
	w := l.world()
	w.Unread, w.Now, w.Uninstalled, w.Guesses, w.Origins = a.Unread, a.Time, a.Uninstalled, nil, nil
	w.Allocator, w.Unheard = archivedState(files, a.Unheard)
	w.AgentReports = archivedReports(files)
	return w, nil
}

// archivedState returns the answer of the leading allocator in the files of an archive.
func archivedState(files map[string][]byte, unheard *explain.Unread) (*allocstate.State, *explain.Unread) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".allocator.state") {
			continue
		}
		if s, err := readState(files[name]); err == nil && s.Leading {
			return s, nil
		}
	}
	return nil, cmp.Or(unheard, explain.NewUnheard(explain.Absent, "the archive has no answer of an allocator that leads"))
}

// objectsOf returns the objects of w as YAML, each in its own document.
func objectsOf(w explain.World, r *redactor) ([]byte, error) {
	var text bytes.Buffer
	var errs []error
	put := func(gv schema.GroupVersion, kind string, o any) { errs = append(errs, r.document(&text, gv, kind, o)) }
	for i := range w.Groups {
		put(v2.GroupVersion, "ServiceGroup", &w.Groups[i])
	}
	for i := range w.Agents {
		put(v2.GroupVersion, "LBNodeAgent", &w.Agents[i])
	}
	for i := range w.Configurations {
		put(bgpv1.GroupVersion, "BGPConfiguration", &w.Configurations[i])
	}
	for i := range w.NodeStatuses {
		put(bgpv1.GroupVersion, "BGPNodeStatus", &w.NodeStatuses[i])
	}
	for _, services := range [][]corev1.Service{w.Services, w.Others} {
		for i := range services {
			put(corev1.SchemeGroupVersion, "Service", &services[i])
		}
	}
	for i := range w.Nodes {
		put(corev1.SchemeGroupVersion, "Node", &w.Nodes[i])
	}
	for i := range w.Namespaces {
		put(corev1.SchemeGroupVersion, "Namespace", &corev1.Namespace{ObjectMeta: w.Namespaces[i].ObjectMeta})
	}
	for i := range w.Pods {
		put(corev1.SchemeGroupVersion, "Pod", &w.Pods[i])
	}
	for i := range w.Leases {
		put(coordinationv1.SchemeGroupVersion, "Lease", &w.Leases[i])
	}
	for i := range w.Networks {
		put(networkingv1.SchemeGroupVersion, "ServiceCIDR", &w.Networks[i])
	}
	for i := range w.EndpointSlices {
		put(discoveryv1.SchemeGroupVersion, "EndpointSlice", &w.EndpointSlices[i])
	}
	return text.Bytes(), errors.Join(errs...)
}

// document writes one object without its secrets.
func (r *redactor) document(to *bytes.Buffer, gv schema.GroupVersion, kind string, o any) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	all["apiVersion"], all["kind"] = gv.String(), kind
	if text, err = yaml.Marshal(r.tree(all, "")); err != nil {
		return err
	}
	to.WriteString("---\n")
	to.Write(text)
	return nil
}
