// Package image makes container images of one layer from files, and stores them for the registry.
// The same files give the same digest.
package image

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"purelb.io/purelb/release/layer"
)

// Media types, as in the OCI image specification.
const (
	Manifest = "application/vnd.oci.image.manifest.v1+json"
	config   = "application/vnd.oci.image.config.v1+json"
	content  = "application/vnd.oci.image.layer.v1.tar"
)

// Image has the content of an image.
type Image struct {
	Entry []string // the program and its first arguments
	Files []File
}

// File is a file or folder of the host, and its path in the image.
type File = layer.File

// Name is the name of an image without the registry, because in the lab every registry has every
// image.
type Name struct {
	Repository, Tag string
}

// ParseName reads REPOSITORY[:TAG] or REGISTRY/REPOSITORY[:TAG].
func ParseName(s string) (Name, error) {
	repo, tag := s, "latest"
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, '/') {
		repo, tag = s[:i], s[i+1:]
	}
	if host, rest, ok := strings.Cut(repo, "/"); ok && (strings.ContainsAny(host, ".:") || host == "localhost") {
		repo = rest
	}
	repo = strings.TrimPrefix(repo, "library/")
	n := Name{repo, tag}
	if !n.valid() {
		return Name{}, fmt.Errorf("%q is no image name: want something like example/app:v1", s)
	}
	return n, nil
}

// valid also refuses names that lead outside of the store's directory.
func (n Name) valid() bool {
	ok := func(part string) bool {
		return part != "" && part[0] != '.' && !strings.ContainsFunc(part, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r)
		})
	}
	parts := append(strings.Split(n.Repository, "/"), n.Tag)
	return !slices.ContainsFunc(parts, func(p string) bool { return !ok(p) })
}

func (n Name) String() string { return n.Repository + ":" + n.Tag }

// Store is a directory of images. It has blobs by their digest, and for every name a file with the
// digest of its manifest.
type Store struct{ Dir string }

// Put makes the image and gives it the name. It returns the digest.
func (s Store) Put(n Name, img Image) (digest string, err error) {
	if err := os.MkdirAll(filepath.Join(s.Dir, "blobs"), 0o755); err != nil {
		return "", err
	}
	digest, err = s.build(img)
	if err != nil {
		return "", fmt.Errorf("image %s: %w", n, err)
	}
	return digest, s.Tag(n, digest)
}

// Add stores the content of r under its digest, and returns the digest.
func (s Store) Add(r io.Reader) (digest string, err error) {
	if err := os.MkdirAll(filepath.Join(s.Dir, "blobs"), 0o755); err != nil {
		return "", err
	}
	d, err := s.blob("", func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
	return d.Digest, err
}

// Digest returns the digest of the manifest with this name.
func (s Store) Digest(n Name) (string, error) {
	b, err := os.ReadFile(s.tagFile(n))
	return string(b), err
}

// Open opens the blob with the digest.
func (s Store) Open(digest string) (*os.File, error) {
	hash, ok := strings.CutPrefix(digest, "sha256:")
	if _, err := hex.DecodeString(hash); !ok || err != nil {
		return nil, fmt.Errorf("%q is no digest: %w", digest, os.ErrNotExist)
	}
	return os.Open(filepath.Join(s.Dir, "blobs", hash))
}

// MediaType returns the type of a manifest. Without a type in the manifest, it is the type of an
// image.
func (s Store) MediaType(digest string) string {
	var manifest struct{ MediaType string }
	if blob, err := s.Open(digest); err == nil {
		defer blob.Close()
		_ = json.NewDecoder(blob).Decode(&manifest)
	}
	return cmp.Or(manifest.MediaType, Manifest)
}

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

type object = map[string]any

func (s Store) build(img Image) (string, error) {
	files, err := s.blob(content, func(w io.Writer) error { return layer.Write(w, img.Files) })
	if err != nil {
		return "", err
	}
	conf, err := s.json(config, object{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config": object{
			"Entrypoint": img.Entry,
			"Env":        []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
			"WorkingDir": "/",
		},
		"rootfs": object{"type": "layers", "diff_ids": []string{files.Digest}},
	})
	if err != nil {
		return "", err
	}
	manifest, err := s.json(Manifest, object{
		"schemaVersion": 2, "mediaType": Manifest, "config": conf, "layers": []descriptor{files},
	})
	return manifest.Digest, err
}

func (s Store) json(mediaType string, v any) (descriptor, error) {
	return s.blob(mediaType, func(w io.Writer) error {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
}

// blob stores the output of f under its digest.
func (s Store) blob(mediaType string, f func(io.Writer) error) (descriptor, error) {
	tmp, err := os.CreateTemp(s.Dir, "new-")
	if err != nil {
		return descriptor{}, err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	hash := sha256.New()
	err = f(io.MultiWriter(tmp, hash))
	size, err2 := tmp.Seek(0, io.SeekCurrent)
	if err := errors.Join(err, err2, tmp.Close()); err != nil {
		return descriptor{}, err
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	err = os.Rename(tmp.Name(), filepath.Join(s.Dir, "blobs", sum))
	return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: size}, err
}

// Tag gives the manifest with the digest a name.
func (s Store) Tag(n Name, digest string) error {
	file := s.tagFile(n)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", []byte(digest), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

func (s Store) tagFile(n Name) string {
	return filepath.Join(s.Dir, "names", filepath.FromSlash(n.Repository), ":"+n.Tag)
}
