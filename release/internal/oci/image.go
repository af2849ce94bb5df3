// Package oci makes images and other artifacts for registries. It knows nothing of the registry.
package oci

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"

	"purelb.io/purelb/release/internal/source"
	"purelb.io/purelb/release/layer"
)

// Program is the input of an image: a static binary and its description.
type Program struct {
	source.Program
	// Binaries are the paths of the program, one for each platform.
	Binaries map[source.Platform]string
}

// Index makes the image of a program for all of its platforms.
func Index(t source.Tree, p Program, platforms []source.Platform) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	index, ok := mutate.Annotations(index, labels(t, p.Program)).(v1.ImageIndex)
	if !ok {
		return nil, fmt.Errorf("image of %s: an index with annotations is none", p.Name)
	}
	for _, platform := range platforms {
		img, err := build(t, p, platform)
		if err != nil {
			return nil, fmt.Errorf("image of %s for %s: %w", p.Name, platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: platform.OS, Architecture: platform.Arch}},
		})
	}
	return index, nil
}

// labels returns the annotations that the OCI specification defines. The image's configuration has
// them as labels, too, because not all tools show annotations.
func labels(t source.Tree, p source.Program) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":         p.Name,
		"org.opencontainers.image.description":   p.About,
		"org.opencontainers.image.version":       t.Version,
		"org.opencontainers.image.revision":      t.Revision,
		"org.opencontainers.image.created":       t.Time.Format("2006-01-02T15:04:05Z"),
		"org.opencontainers.image.licenses":      "Apache-2.0",
		"org.opencontainers.image.vendor":        "PureLB",
		"org.opencontainers.image.url":           "https://purelb.io",
		"org.opencontainers.image.source":        "https://github.com/purelb/purelb",
		"org.opencontainers.image.documentation": "https://github.com/purelb/purelb/tree/main/docs",
	}
}

func build(t source.Tree, p Program, platform source.Platform) (v1.Image, error) {
	binary, ok := p.Binaries[platform]
	if !ok {
		return nil, fmt.Errorf("it was not built")
	}
	files, err := content(binary, p.Name)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: t.Time}
	img, err := mutate.Append(base, mutate.Addendum{
		Layer: files, MediaType: types.OCILayer,
		History: v1.History{Created: created, CreatedBy: "make release VERSION=" + t.Version},
	})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Created, config.OS, config.Architecture = created, platform.OS, platform.Arch
	config.Config = v1.Config{
		Entrypoint: []string{"/" + p.Name}, User: p.User, WorkingDir: "/",
		Env: []string{"PATH=/"}, Labels: labels(t, p.Program),
	}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, err
	}
	annotated, ok := mutate.Annotations(img, labels(t, p.Program)).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("an image with annotations is none")
	}
	return annotated, nil
}

// content returns the layer: the program, and the certificates of public authorities, which HTTPS
// to a NetBox needs.
func content(binary, name string) (v1.Layer, error) {
	var text bytes.Buffer
	err := layer.Write(&text, []layer.File{
		{From: binary, To: "/" + name},
		{Text: certificates(), To: "/etc/ssl/certs/ca-certificates.crt"},
	})
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(text.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// certificates returns the certificates that Mozilla trusts without conditions, because a file
// cannot express conditions.
func certificates() string {
	var b strings.Builder
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return b.String()
}
