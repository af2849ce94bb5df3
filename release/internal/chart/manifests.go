package chart

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"purelb.io/purelb/release/internal/archive"
	"purelb.io/purelb/release/internal/source"
)

const (
	namespace = `apiVersion: v1
kind: Namespace
metadata:
  name: purelb-system
  labels:
    app: purelb
    pod-security.kubernetes.io/enforce: privileged
`
	// kube is the version of Kubernetes for which manifests are rendered. The chart renders the
	// same for all versions that it accepts.
	kube = "1.36.0"
)

// Manifests are the files that install PureLB without Helm.
type Manifests struct {
	CRDs, Install []byte
}

// Render renders a packed chart with its default values.
func Render(ctx context.Context, t source.Tree, packed []byte) (Manifests, error) {
	dir, err := os.MkdirTemp("", "purelb-render-")
	if err != nil {
		return Manifests{}, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "purelb.tgz")
	if err := os.WriteFile(file, packed, 0o600); err != nil {
		return Manifests{}, err
	}
	out, err := t.Helm(ctx, "template", "purelb", file, "--namespace", "purelb-system", "--kube-version", kube, "--skip-tests", "--no-hooks")
	if err != nil {
		return Manifests{}, err
	}
	files, err := archive.ReadTarGz(bytes.NewReader(packed))
	if err != nil {
		return Manifests{}, err
	}
	return Manifests{CRDs: crds(files), Install: append([]byte(namespace), withoutHelm(out)...)}, nil
}

// withoutHelm removes the labels by which Helm recognizes its objects, because Helm does not manage
// these objects.
func withoutHelm(text []byte) []byte {
	return regexp.MustCompile(`(?m)^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n`).ReplaceAll(text, nil)
}

// crds returns the custom resource definitions. They keep these labels: a release that follows upgrades them.
func crds(files archive.Files) []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasPrefix(name, "purelb/crds/") {
			b.Write(files[name].Data)
		}
	}
	return b.Bytes()
}

// Kustomize returns the files of two bases. The first has the custom resource definitions. The
// second has all other objects, and needs the first.
func (m Manifests) Kustomize() archive.Files {
	list := func(resource string) []byte {
		return fmt.Appendf(nil, "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- %s\n", resource)
	}
	return archive.Files{
		"crds/kustomization.yaml":   archive.File(list("crds.yaml")),
		"crds/crds.yaml":            archive.File(m.CRDs),
		"purelb/kustomization.yaml": archive.File(list("install.yaml")),
		"purelb/install.yaml":       archive.File(m.Install),
	}
}
