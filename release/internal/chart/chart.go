// Package chart makes the files that install PureLB: the chart of a release, and plain manifests
// that are rendered from it.
package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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

// Make packs the chart of the tree for a registry. digests has the digests of the images by their
// names. The chart uses these digests.
func Make(ctx context.Context, t source.Tree, registry string, digests map[string]string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "purelb-chart-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	files, err := archive.Read(filepath.Join(t.Root, folder))
	if err != nil {
		return nil, err
	}
	if err := release(files, t, registry, digests); err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	in := filepath.Join(dir, "purelb")
	if err := os.CopyFS(in, files); err != nil {
		return nil, err
	}
	if _, err := t.Helm(ctx, "package", in, "--destination", dir); err != nil {
		return nil, err
	}
	return repack(filepath.Join(dir, "purelb-"+t.Version+".tgz"), t)
}

// release changes the files of the chart that name the images.
func release(files archive.Files, t source.Tree, registry string, digests map[string]string) error {
	const metadata, values, line = "Chart.yaml", "values.yaml", "  repository: " + Registry + "\n"
	if files[metadata] == nil || files[values] == nil || bytes.Count(files[values].Data, []byte(line)) != 1 {
		return fmt.Errorf("it has no %s, or no %s with one line %q", metadata, values, line)
	}
	files[values].Data = bytes.Replace(files[values].Data, []byte(line), []byte("  repository: "+registry+"\n"), 1)
	text, err := annotate(files[metadata].Data, t, registry, digests)
	files[metadata].Data = text
	return err
}

func annotate(text []byte, t source.Tree, registry string, digests map[string]string) ([]byte, error) {
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
	return yaml.Marshal(metadata)
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

// Artifact returns a packed chart in the form in which Helm stores charts in registries.
func Artifact(packed []byte) (v1.Image, error) {
	files, err := archive.ReadTarGz(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	metadata := files["purelb/Chart.yaml"]
	if metadata == nil {
		return nil, errors.New("it is no chart of PureLB: it has no Chart.yaml")
	}
	config, err := yaml.YAMLToJSON(metadata.Data)
	if err != nil {
		return nil, err
	}
	var named struct{ Name, Version string }
	if err := json.Unmarshal(config, &named); err != nil {
		return nil, err
	}
	return oci.Artifact(
		oci.Blob{Type: "application/vnd.cncf.helm.config.v1+json", Text: config},
		oci.Blob{Type: "application/vnd.cncf.helm.chart.content.v1.tar+gzip", Text: packed},
		map[string]string{
			"org.opencontainers.image.title":   named.Name,
			"org.opencontainers.image.version": named.Version,
		})
}
