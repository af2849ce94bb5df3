// Package chart makes the files that install PureLB: the chart of a release, and plain manifests
// that are rendered from it.
package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"sigs.k8s.io/yaml"

	"purelb.io/purelb/release/internal/archive"
	"purelb.io/purelb/release/internal/oci"
	"purelb.io/purelb/release/internal/source"
)

const (
	folder = "charts/purelb"
	// Registry is the registry of the images that the chart in the tree uses.
	Registry = "ghcr.io/purelb/purelb"
	// DigestAnnotation, followed by the name of an image, is the chart's annotation with the digest
	// of that image. The templates read it.
	DigestAnnotation = "purelb.io/image-digest-"
)

// A Chart is the chart of a release.
type Chart struct {
	Name, Version string
	Package       []byte // packed by Helm
	metadata      map[string]any
}

// Make packs the chart of the tree for a registry. digests has the digests of the images by their
// names. The chart uses these digests.
func Make(ctx context.Context, t source.Tree, registry string, digests map[string]string) (Chart, error) {
	dir, err := os.MkdirTemp("", "purelb-chart-")
	if err != nil {
		return Chart{}, err
	}
	defer os.RemoveAll(dir)
	files, err := archive.ReadDir(filepath.Join(t.Root, folder))
	if err != nil {
		return Chart{}, err
	}
	metadata, err := release(files, t, registry, digests)
	if err != nil {
		return Chart{}, fmt.Errorf("%s: %w", folder, err)
	}
	in := filepath.Join(dir, "purelb")
	if err := os.Mkdir(in, 0o755); err != nil {
		return Chart{}, err
	}
	if err := archive.WriteDir(in, files); err != nil {
		return Chart{}, err
	}
	if _, err := t.Helm(ctx, "package", in, "--version", t.Version, "--app-version", t.Version, "--destination", dir); err != nil {
		return Chart{}, err
	}
	text, err := repack(filepath.Join(dir, "purelb-"+t.Version+".tgz"), t)
	return Chart{Name: "purelb", Version: t.Version, Package: text, metadata: metadata}, err
}

// release changes the files of the chart that name the images, and returns the chart's metadata.
func release(files []archive.File, t source.Tree, registry string, digests map[string]string) (map[string]any, error) {
	var metadata map[string]any
	for i, f := range files {
		var err error
		switch f.Name {
		case "Chart.yaml":
			metadata, err = annotate(f.Text, t, registry, digests)
			if err == nil {
				files[i].Text, err = yaml.Marshal(metadata)
			}
		case "values.yaml":
			const line = "  repository: " + Registry + "\n"
			if n := strings.Count(string(f.Text), line); n != 1 {
				err = fmt.Errorf("it has %q %d times, want once", line, n)
			}
			files[i].Text = []byte(strings.Replace(string(f.Text), line, "  repository: "+registry+"\n", 1))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if metadata == nil {
		return nil, fmt.Errorf("it has no Chart.yaml")
	}
	return metadata, nil
}

func annotate(text []byte, t source.Tree, registry string, digests map[string]string) (map[string]any, error) {
	var metadata map[string]any
	if err := yaml.Unmarshal(text, &metadata); err != nil {
		return nil, err
	}
	metadata["version"], metadata["appVersion"] = t.Version, t.Version
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		annotations = map[string]any{}
	}
	var images []map[string]any
	for _, p := range source.Programs {
		if digest, ok := digests[p.Name]; ok {
			annotations[DigestAnnotation+p.Name] = digest
			images = append(images, map[string]any{"name": p.Name, "image": registry + "/" + p.Name + ":" + t.Version + "@" + digest})
		}
	}
	list, err := yaml.Marshal(images)
	if err != nil {
		return nil, err
	}
	annotations["artifacthub.io/images"] = string(list)
	if strings.Contains(t.Version, "-") {
		annotations["artifacthub.io/prerelease"] = "true"
	}
	metadata["annotations"] = annotations
	return metadata, nil
}

// repack gives the files of a package the time of the release, instead of the current time that
// Helm uses.
func repack(path string, t source.Tree) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	files, err := archive.ReadTarGz(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var b bytes.Buffer
	err = archive.TarGz(&b, t.Time, files)
	return b.Bytes(), err
}

// Artifact returns the chart in the form in which Helm stores charts in registries.
func (c Chart) Artifact() (v1.Image, error) {
	config, err := json.Marshal(c.metadata)
	if err != nil {
		return nil, err
	}
	return oci.Artifact(
		oci.Blob{Type: "application/vnd.cncf.helm.config.v1+json", Text: config},
		oci.Blob{Type: "application/vnd.cncf.helm.chart.content.v1.tar+gzip", Text: c.Package},
		map[string]string{
			"org.opencontainers.image.title":   c.Name,
			"org.opencontainers.image.version": c.Version,
		})
}

// Open reads a packed chart.
func Open(path string) (Chart, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Chart{}, err
	}
	files, err := archive.ReadTarGz(bytes.NewReader(text))
	if err != nil {
		return Chart{}, fmt.Errorf("%s: %w", path, err)
	}
	c := Chart{Package: text}
	for _, f := range files {
		if f.Name == "purelb/Chart.yaml" {
			err = yaml.Unmarshal(f.Text, &c.metadata)
		}
	}
	c.Name, _ = c.metadata["name"].(string)
	c.Version, _ = c.metadata["version"].(string)
	if err != nil || c.Name == "" || c.Version == "" {
		return Chart{}, fmt.Errorf("%s is no chart: its Chart.yaml has no name or no version (%w)", path, err)
	}
	return c, nil
}
