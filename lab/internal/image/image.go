// Package image makes container images of static programs, and is the registry from which the nodes
// pull them. The same programs give the same digest.
package image

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"purelb.io/purelb/release/layer"
)

// New makes an image of static programs. Its command is the first program, with the paths of the others
// as arguments. The layer is not compressed, because it never leaves this machine.
func New(programs ...string) (v1.Image, error) {
	var (
		command []string
		files   []layer.File
		content bytes.Buffer
	)
	for _, program := range programs {
		to := "/" + filepath.Base(program)
		command, files = append(command, to), append(files, layer.File{From: program, To: to})
	}
	if err := layer.Write(&content, files); err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.AppendLayers(base, static.NewLayer(content.Bytes(), types.OCIUncompressedLayer))
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: command, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, WorkingDir: "/"}
	return mutate.ConfigFile(img, config)
}

// Push gives an image to the registry that transport leads to, and returns its digest.
func Push(ctx context.Context, transport http.RoundTripper, to string, img v1.Image) (digest string, err error) {
	tag, err := name.NewTag(to, name.Insecure)
	if err != nil {
		return "", err
	}
	if err := remote.Write(tag, img, remote.WithContext(ctx), remote.WithTransport(transport)); err != nil {
		return "", fmt.Errorf("image %s: %w", tag, err)
	}
	hash, err := img.Digest()
	return hash.String(), err
}

// Registry accepts images and charts, and serves them under the name of every registry. Their blobs are
// files in dir. Their names are lost when it ends.
//
// A container runtime resumes a pull with a range of no end, which the library refuses. Without a range the
// runtime gets the whole blob, and skips what it has.
func Registry(dir string) http.Handler {
	library := registry.New(registry.WithBlobHandler(registry.NewDiskBlobHandler(dir)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Range")
		library.ServeHTTP(w, r)
	})
}
