package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/sigstore/sigstore/pkg/signature"

	"purelb.io/purelb/release/internal/attest"
	"purelb.io/purelb/release/internal/chart"
	"purelb.io/purelb/release/internal/oci"
	"purelb.io/purelb/release/internal/source"
)

// publisher pushes a release that was built for the registry.
type publisher struct {
	dir, registry, key string
	insecure           bool
	log                io.Writer

	signer signature.Signer // nil: sign nothing
}

// taggable is an object that a registry stores under a tag.
type taggable interface {
	remote.Taggable
	Digest() (v1.Hash, error)
}

func (p *publisher) publish(ctx context.Context) error {
	if err := checkSums(p.dir); err != nil {
		return err
	}
	if p.key != "" {
		signer, err := attest.LoadKey(p.key)
		if err != nil {
			return err
		}
		p.signer = signer
	}
	version, err := p.version()
	if err != nil {
		return err
	}
	unpacked, err := os.MkdirTemp("", "purelb-publish-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(unpacked)
	for _, program := range source.Programs {
		image, err := oci.OpenArchive(filepath.Join(p.dir, imageFile(program.Name, version)), filepath.Join(unpacked, program.Name))
		if err != nil {
			return err
		}
		if err := p.push(ctx, image, program.Name, version); err != nil {
			return err
		}
	}
	file := filepath.Join(p.dir, "purelb-"+version+".tgz")
	packed, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	artifact, err := chart.Artifact(packed)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := p.push(ctx, artifact, "charts/purelb", version); err != nil {
		return err
	}
	return p.signFiles()
}

// checkSums compares the files of a release with the list of sums.
func checkSums(dir string) error {
	list, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil {
		return fmt.Errorf("%w: is %s a folder that \"release build\" made to the end?", err, dir)
	}
	for scanner := bufio.NewScanner(bytes.NewReader(list)); scanner.Scan(); {
		want, file, ok := strings.Cut(scanner.Text(), "  ")
		if !ok || filepath.Base(file) != file {
			return fmt.Errorf("%s: %q is no line of sums", sumsFile, scanner.Text())
		}
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		if has := sum(text); has != want {
			return fmt.Errorf("%s was changed after the release was built: its SHA-256 sum is %s, want %s", file, has, want)
		}
	}
	return nil
}

// version reads the version of the release, and the registry for which it was built, from the list
// of images.
func (p *publisher) version() (string, error) {
	text, err := os.ReadFile(filepath.Join(p.dir, imagesFile))
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	image, _, _ := strings.Cut(line, "@")
	name, ok := strings.CutPrefix(image, p.registry+"/")
	built, version, tagged := strings.Cut(name, ":")
	if !ok || !tagged || strings.Contains(built, "/") {
		return "", fmt.Errorf("the release has the image %s, and its chart and manifests name it so: build it for %s (make release REGISTRY=%[2]s), or copy it with a tool that copies images", image, p.registry)
	}
	return version, nil
}

// push pushes the object under its name, and signs it. If the registry already has this version
// with another content, push returns an error and leaves it unchanged, because users may have
// pulled it.
func (p *publisher) push(ctx context.Context, what taggable, repository, version string) error {
	options := []name.Option{name.StrictValidation}
	if p.insecure {
		options = append(options, name.Insecure)
	}
	tag, err := name.NewTag(p.registry+"/"+repository+":"+version, options...)
	if err != nil {
		return err
	}
	digest, err := what.Digest()
	if err != nil {
		return err
	}
	there, err := remote.Head(tag, p.options(ctx)...)
	switch {
	case err == nil && there.Digest != digest:
		return fmt.Errorf("%s is published already with the digest %s, and this one has %s: choose another version", tag, there.Digest, digest)
	case err != nil && !isMissing(err):
		return fmt.Errorf("look for %s: %w", tag, err)
	case err != nil:
		if err := remote.Push(tag, what, p.options(ctx)...); err != nil {
			return fmt.Errorf("push %s: %w", tag, err)
		}
	}
	fmt.Fprintf(p.log, "%s@%s\n", tag, digest)
	return p.sign(ctx, tag.Digest(digest.String()))
}

func (p *publisher) options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("purelb-release")}
}

func isMissing(err error) bool {
	var refused *transport.Error
	return errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound
}

func (p *publisher) sign(ctx context.Context, ref name.Digest) error {
	if p.signer == nil {
		return nil
	}
	image, err := attest.Sign(p.signer, ref)
	if err != nil {
		return err
	}
	tag, err := attest.SignatureTag(ref)
	if err != nil {
		return err
	}
	if err := remote.Write(tag, image, p.options(ctx)...); err != nil {
		return fmt.Errorf("push the signature of %s: %w", ref, err)
	}
	fmt.Fprintln(p.log, tag)
	return nil
}

// signFiles writes the signature of the list of sums, the signed provenance and the public key next
// to the release. OpenVEX statements depend on a database that changes every day. So they are not
// in the list of sums, and have their own signatures.
func (p *publisher) signFiles() error {
	if p.signer == nil {
		return nil
	}
	statement, err := os.ReadFile(filepath.Join(p.dir, provenanceFile))
	if err != nil {
		return err
	}
	envelope, err := attest.SignStatement(p.signer, statement)
	if err != nil {
		return err
	}
	key, err := attest.PublicKey(p.signer)
	if err != nil {
		return err
	}
	var errs []error
	for file, text := range map[string][]byte{provenanceFile + "l": append(envelope, '\n'), "purelb.pub": key} {
		errs = append(errs, os.WriteFile(filepath.Join(p.dir, file), text, 0o644)) //nolint:gosec // a release is for all to read
	}
	statements, err := filepath.Glob(filepath.Join(p.dir, "*.openvex.json"))
	errs = append(errs, err)
	for _, file := range append(statements, filepath.Join(p.dir, sumsFile)) {
		errs = append(errs, p.signFile(file))
	}
	return errors.Join(errs...)
}

// signFile writes the signature of a file next to it.
func (p *publisher) signFile(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	sig, err := attest.SignText(p.signer, text)
	if err != nil {
		return err
	}
	return os.WriteFile(file+".sig", []byte(sig), 0o644) //nolint:gosec // a release is for all to read
}
