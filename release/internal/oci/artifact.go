package oci

import (
	"bytes"
	"encoding/json"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Blob is a part of an artifact.
type Blob struct {
	Type types.MediaType
	Text []byte
}

// artifact is a registry object for other programs than container runtimes: a manifest with a
// configuration and one part.
type artifact struct {
	manifest []byte
	config   Blob
	content  v1.Layer
}

// Artifact makes an artifact. A registry handles it like an image.
func Artifact(config, content Blob, annotations map[string]string) (v1.Image, error) {
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: describe(config), Layers: []v1.Descriptor{describe(content)}, Annotations: annotations,
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&artifact{manifest, config, static.NewLayer(content.Text, content.Type)})
}

func describe(b Blob) v1.Descriptor {
	hash, size, err := v1.SHA256(bytes.NewReader(b.Text))
	if err != nil {
		panic(err) // reading from memory cannot fail
	}
	return v1.Descriptor{MediaType: b.Type, Size: size, Digest: hash}
}

func (a *artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }
func (a *artifact) RawManifest() ([]byte, error)        { return a.manifest, nil }
func (a *artifact) RawConfigFile() ([]byte, error)      { return a.config.Text, nil }

func (a *artifact) LayerByDigest(want v1.Hash) (partial.CompressedLayer, error) {
	if has, err := a.content.Digest(); err != nil || has != want {
		return nil, fmt.Errorf("the artifact has no part %s", want)
	}
	return a.content, nil
}
