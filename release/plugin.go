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

// krewPlatform is an entry of krew's manifest. krew installs plugins of kubectl, and finds the
// archive of a platform in this entry.
type krewPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
}

// makePlugin writes an archive for each platform, and the manifest for krew.
func (b *builder) makePlugin(ctx context.Context) error {
	license, err := os.ReadFile(filepath.Join(b.tree.Root, "LICENSE"))
	if err != nil {
		return err
	}
	var platforms []krewPlatform
	for _, p := range b.plugins {
		binary, err := b.compile(ctx, source.Plugin, p)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(binary)
		if err != nil {
			return err
		}
		packed, err := b.packPlugin(p, text, license)
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

func (b *builder) packPlugin(p source.Platform, program, license []byte) (krewPlatform, error) {
	bin, extension, pack := source.Plugin, ".tar.gz", archive.TarGz
	if p.OS == "windows" {
		bin, extension, pack = bin+".exe", ".zip", archive.Zip
	}
	var packed bytes.Buffer
	err := pack(&packed, b.tree.Time, []archive.File{
		{Name: bin, Text: program, Executable: true},
		{Name: "LICENSE", Text: license},
	})
	if err != nil {
		return krewPlatform{}, err
	}
	file := fmt.Sprintf("%s-%s_%s_%s%s", source.Plugin, b.tree.Version, p.OS, p.Arch, extension)
	entry := krewPlatform{
		URI: fmt.Sprintf("%s/v%s/%s", b.downloads, b.tree.Version, file), SHA256: sum(packed.Bytes()), Bin: bin,
	}
	entry.Selector.MatchLabels = map[string]string{"os": p.OS, "arch": p.Arch}
	return entry, b.write(file, packed.Bytes())
}
