package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"purelb.io/purelb/release/internal/archive"
	"purelb.io/purelb/release/internal/source"
)

// makePlugin writes an archive for each platform, and the manifest for krew, which installs plugins of
// kubectl.
func (b *builder) makePlugin(ctx context.Context) error {
	license, err := os.ReadFile(filepath.Join(b.tree.Root, "LICENSE"))
	if err != nil {
		return err
	}
	var platforms []any
	for _, p := range b.plugins {
		packed, err := b.packPlugin(ctx, p, license)
		if err != nil {
			return err
		}
		platforms = append(platforms, packed)
	}
	manifest, err := yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]any{"name": "purelb"},
		"spec": map[string]any{
			"version":          "v" + b.tree.Version,
			"homepage":         "https://purelb.io",
			"shortDescription": "Explain addresses of LoadBalancer Services",
			"description": "Says which addresses PureLB gave to Services of type LoadBalancer, which nodes\n" +
				"announce them and why, and what is wrong with its objects, in the cluster or in files.\n",
			"platforms": platforms,
		},
	})
	if err != nil {
		return err
	}
	return b.write("krew-purelb.yaml", manifest)
}

// packPlugin writes the archive of a platform, and returns its entry in the manifest.
func (b *builder) packPlugin(ctx context.Context, p source.Platform, license []byte) (entry map[string]any, err error) {
	binary, err := b.compile(ctx, source.Plugin, p)
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	bin, extension, pack := source.Plugin, ".tar.gz", archive.TarGz
	if p.OS == "windows" {
		bin, extension, pack = bin+".exe", ".zip", archive.Zip
	}
	var packed bytes.Buffer
	if err := pack(&packed, b.tree.Time, archive.Files{bin: archive.Program(program), "LICENSE": archive.File(license)}); err != nil {
		return nil, err
	}
	file := fmt.Sprintf("%s-%s_%s_%s%s", source.Plugin, b.tree.Version, p.OS, p.Arch, extension)
	return map[string]any{
		"selector": map[string]any{"matchLabels": map[string]string{"os": p.OS, "arch": p.Arch}},
		"uri":      fmt.Sprintf("%s/v%s/%s", b.downloads, b.tree.Version, file),
		"sha256":   sum(packed.Bytes()),
		"bin":      bin,
	}, b.write(file, packed.Bytes())
}
