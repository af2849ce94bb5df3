package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"purelb.io/purelb/release/internal/archive"
	"purelb.io/purelb/release/internal/attest"
	"purelb.io/purelb/release/internal/chart"
	"purelb.io/purelb/release/internal/oci"
	"purelb.io/purelb/release/internal/source"
)

// sumsFile lists the files of a release with their SHA-256 sums. provenanceFile names the sources
// and the tools of the build.
const (
	sumsFile       = "SHA256SUMS"
	provenanceFile = "provenance.intoto.json"
)

// builder makes a release. It has the options, and the sums of the files that it wrote.
type builder struct {
	tree            source.Tree
	out             string
	registry        string
	downloads       string
	builderID       string
	images, plugins []source.Platform
	log             io.Writer

	bin  string            // folder of the compiled programs
	sums map[string]string // by the name of the file
}

func (b *builder) build(ctx context.Context) error {
	if err := os.Mkdir(b.out, 0o755); err != nil {
		return fmt.Errorf("%w: a release goes into a new folder", err)
	}
	bin, err := os.MkdirTemp("", "purelb-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	b.bin, b.sums = bin, map[string]string{}
	digests, err := b.makeImages(ctx)
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return b.makeChart(ctx, digests) },
		func() error { return b.makePlugin(ctx) },
		b.writeProvenance,
		b.writeSums,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.log, "%d files of release %s are in %s\n", len(b.sums)+1, b.tree.Version, b.out)
	return nil
}

// makeImages returns the digests of the images by their names.
func (b *builder) makeImages(ctx context.Context) (map[string]string, error) {
	digests := map[string]string{}
	for _, program := range source.Programs {
		p := oci.Program{Program: program, Binaries: map[source.Platform]string{}}
		for _, platform := range b.images {
			binary, err := b.compile(ctx, program.Name, platform)
			if err != nil {
				return nil, err
			}
			p.Binaries[platform] = binary
		}
		index, err := oci.Index(b.tree, p, b.images)
		if err != nil {
			return nil, err
		}
		digest, err := index.Digest()
		if err != nil {
			return nil, err
		}
		digests[program.Name] = digest.String()
		name := fmt.Sprintf("%s/%s:%s", b.registry, program.Name, b.tree.Version)
		var packed bytes.Buffer
		if err := oci.WriteArchive(&packed, b.tree.Time, index, name, b.tree.Version); err != nil {
			return nil, fmt.Errorf("archive of %s: %w", name, err)
		}
		if err := b.write(imageFile(program.Name, b.tree.Version), packed.Bytes()); err != nil {
			return nil, err
		}
	}
	return digests, nil
}

func imageFile(program, version string) string { return program + "-" + version + ".oci.tar" }

// compile builds a program and writes its SBOM.
func (b *builder) compile(ctx context.Context, program string, p source.Platform) (string, error) {
	binary := filepath.Join(b.bin, strings.Join([]string{program, p.OS, p.Arch}, "_"))
	if err := b.tree.Build(ctx, program, p, binary); err != nil {
		return "", err
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		return "", err
	}
	sbom, err := attest.ProgramSBOM(b.tree, program, p, binary, sum(text))
	if err != nil {
		return "", err
	}
	return binary, b.write(fmt.Sprintf("%s-%s_%s_%s.spdx.json", program, b.tree.Version, p.OS, p.Arch), sbom)
}

func (b *builder) makeChart(ctx context.Context, digests map[string]string) error {
	packed, err := chart.Make(ctx, b.tree, b.registry, digests)
	if err != nil {
		return err
	}
	m, err := chart.Render(ctx, b.tree, packed)
	if err != nil {
		return err
	}
	sbom, err := b.chartSBOM(packed, digests)
	if err != nil {
		return err
	}
	var base bytes.Buffer
	if err := archive.TarGz(&base, b.tree.Time, m.Kustomize()); err != nil {
		return err
	}
	var images strings.Builder
	for _, p := range source.Programs {
		fmt.Fprintf(&images, "%s/%s:%s@%s\n", b.registry, p.Name, b.tree.Version, digests[p.Name])
	}
	return errors.Join(
		b.write("purelb-"+b.tree.Version+".tgz", packed),
		b.write("purelb-chart-"+b.tree.Version+".spdx.json", sbom),
		b.write("crds.yaml", m.CRDs),
		b.write("install.yaml", m.Install),
		b.write("purelb-kustomize-"+b.tree.Version+".tar.gz", base.Bytes()),
		b.write(imagesFile, []byte(images.String())),
	)
}

// imagesFile lists all images by their digests, for users who copy the images.
const imagesFile = "images.txt"

func (b *builder) chartSBOM(packed []byte, digests map[string]string) ([]byte, error) {
	whole := attest.Component{
		Name: "purelb-chart", Version: b.tree.Version, SHA256: sum(packed), License: "Apache-2.0", Purpose: "INSTALL",
		URL: fmt.Sprintf("pkg:helm/purelb@%s", b.tree.Version),
	}
	var parts []attest.Component
	for _, p := range source.Programs {
		parts = append(parts, attest.Component{
			Name: b.registry + "/" + p.Name, Version: b.tree.Version, SHA256: strings.TrimPrefix(digests[p.Name], "sha256:"),
			License: "Apache-2.0", Purpose: "CONTAINER",
			URL: fmt.Sprintf("pkg:oci/%s@%s?repository_url=%s/%[1]s&tag=%s", p.Name, digests[p.Name], b.registry, b.tree.Version),
		})
	}
	return attest.SBOM(b.tree, "purelb-chart", whole, parts)
}

func (b *builder) writeProvenance() error {
	text, err := attest.Provenance(b.tree, attest.Build{
		Parameters: map[string]any{
			"version": b.tree.Version, "registry": b.registry, "downloads": b.downloads,
			"imagePlatforms": b.images, "pluginPlatforms": b.plugins, "uncommittedChanges": b.tree.Dirty,
		},
		Go: runtime.Version(), Builder: b.builderID,
	}, b.sums)
	if err != nil {
		return err
	}
	return b.write(provenanceFile, text)
}

func (b *builder) writeSums() error {
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(b.sums)) {
		fmt.Fprintf(&list, "%s  %s\n", b.sums[name], name)
	}
	return os.WriteFile(filepath.Join(b.out, sumsFile), []byte(list.String()), 0o644) //nolint:gosec // a release is for all to read
}

func (b *builder) write(name string, text []byte) error {
	fmt.Fprintln(b.log, name)
	b.sums[name] = sum(text)
	return os.WriteFile(filepath.Join(b.out, name), text, 0o644) //nolint:gosec // a release is for all to read
}

func sum(text []byte) string {
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:])
}
