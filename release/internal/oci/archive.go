package oci

import (
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"purelb.io/purelb/release/internal/archive"
)

// WriteArchive packs an image as an OCI archive, which container runtimes and skopeo can load.
// containerd uses the whole name, and others use the tag.
func WriteArchive(w io.Writer, at time.Time, index v1.ImageIndex, name, tag string) error {
	dir, err := os.MkdirTemp("", "purelb-oci-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	names := map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}
	if err := path.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return err
	}
	files, err := archive.Read(dir)
	if err != nil {
		return err
	}
	return archive.Tar(w, at, files)
}

// OpenArchive unpacks an archive into a new folder, and returns the image. The image reads its parts
// from there.
func OpenArchive(path, dir string) (v1.ImageIndex, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	files, err := archive.ReadTar(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := os.CopyFS(dir, files); err != nil {
		return nil, fmt.Errorf("unpack %s: %w", path, err)
	}
	all, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("%s is no archive of an image: %w", path, err)
	}
	manifest, err := all.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s has %d images, want one", path, len(manifest.Manifests))
	}
	return all.ImageIndex(manifest.Manifests[0].Digest)
}
