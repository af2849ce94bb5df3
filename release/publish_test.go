package main

import (
	"bytes"
	"crypto"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"purelb.io/purelb/release/internal/attest"
	"purelb.io/purelb/release/internal/source"
)

// cosignKey writes a key as "cosign generate-key-pair" does. It returns the file and the verifier
// of its signatures.
func cosignKey(t *testing.T) (string, signature.Verifier) {
	t.Helper()
	const password = "secret"
	private, public, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), func(bool) ([]byte, error) { return []byte(password), nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("COSIGN_PASSWORD", password)
	file := filepath.Join(t.TempDir(), "cosign.key")
	if err := os.WriteFile(file, private, 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := cryptoutils.UnmarshalPEMToPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := signature.LoadVerifier(key, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return file, verifier
}

func publish(t *testing.T, b built, more ...string) error {
	t.Helper()
	return run(t.Context(), append([]string{"publish", "-dir", b.dir, "-registry", b.registry}, more...), io.Discard)
}

func TestPublishedReleaseIsSignedAndPullable(t *testing.T) {
	b := copyOf(t, release(t))
	if err := os.WriteFile(filepath.Join(b.dir, vexFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	key, verifier := cosignKey(t)
	for range 2 { // the second time, the registry already has everything
		if err := publish(t, b, "-key", key); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(string(b.read(t, imagesFile))) {
		tag, digest, _ := strings.Cut(strings.TrimSpace(line), "@")
		ref, err := name.NewTag(tag)
		if err != nil {
			t.Fatal(err)
		}
		index, err := remote.Index(ref)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := index.Digest(); err != nil || got.String() != digest {
			t.Errorf("%s is %s, want %s (%v)", tag, got, digest, err)
		}
		if err := validate.Index(index); err != nil {
			t.Errorf("%s: %v", tag, err)
		}
		checkSignature(t, ref.Digest(digest), verifier)
	}
	checkChart(t, b, verifier)
	checkFiles(t, b, verifier)
}

// checkSignature does the same as "cosign verify --key" without a transparency log.
func checkSignature(t *testing.T, ref name.Digest, verifier signature.Verifier) {
	t.Helper()
	image, err := remote.Image(ref.Tag(strings.Replace(ref.DigestStr(), ":", "-", 1) + ".sig"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	text, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	signed, err := io.ReadAll(text)
	if err != nil {
		t.Fatal(err)
	}
	if kind := manifest.Layers[0].MediaType; kind != "application/vnd.dev.cosign.simplesigning.v1+json" {
		t.Errorf("the signature of %s is a %s", ref, kind)
	}
	verify(t, verifier, manifest.Layers[0].Annotations["dev.cosignproject.cosign/signature"], signed)
	var says payload.Cosign
	if err := json.Unmarshal(signed, &says); err != nil || says.Image.Name() != ref.Name() {
		t.Errorf("the signature is for %s, want %s (%v)", says.Image.Name(), ref.Name(), err)
	}
}

func verify(t *testing.T, verifier signature.Verifier, sig string, text []byte) {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(sig)
	if err != nil {
		t.Fatal(err)
	}
	if err := verifier.VerifySignature(bytes.NewReader(raw), bytes.NewReader(text)); err != nil {
		t.Error(err)
	}
	if verifier.VerifySignature(bytes.NewReader(raw), bytes.NewReader(append(bytes.Clone(text), ' '))) == nil {
		t.Error("the signature also holds for another text")
	}
}

// checkChart makes Helm pull the chart.
func checkChart(t *testing.T, b built, verifier signature.Verifier) {
	t.Helper()
	dir := t.TempDir()
	tree := source.Tree{Root: ".."}
	if _, err := tree.Helm(t.Context(), "pull", "oci://"+b.registry+"/charts/purelb", "--version", version, "--plain-http", "--destination", dir); err != nil {
		t.Fatal(err)
	}
	file := "purelb-" + version + ".tgz"
	pulled, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil || !bytes.Equal(pulled, b.read(t, file)) {
		t.Errorf("Helm pulls a chart that differs from the release: %v", err)
	}
	tag, err := name.NewTag(b.registry + "/charts/purelb:" + version)
	if err != nil {
		t.Fatal(err)
	}
	there, err := remote.Head(tag)
	if err != nil {
		t.Fatal(err)
	}
	checkSignature(t, tag.Digest(there.Digest.String()), verifier)
}

// vexFile is the file that the workflow adds to a release before it publishes the release.
const vexFile = "purelb-" + version + ".openvex.json"

func checkFiles(t *testing.T, b built, verifier signature.Verifier) {
	t.Helper()
	for _, file := range []string{sumsFile, vexFile} {
		verify(t, verifier, string(b.read(t, file+".sig")), b.read(t, file))
	}
	envelope := bytes.NewReader(b.read(t, provenanceFile+"l"))
	if err := dsse.WrapVerifier(verifier).VerifySignature(envelope, nil); err != nil {
		t.Errorf("the signed provenance: %v", err)
	}
}

func TestOnlyACompleteReleaseIsPublished(t *testing.T) {
	b := release(t)
	if err := run(t.Context(), []string{"publish", "-dir", b.dir, "-registry", "registry.example.org"}, io.Discard); err == nil || !strings.Contains(err.Error(), "make release REGISTRY=registry.example.org") {
		t.Errorf("the error for a release for another registry is %v", err)
	}

	copied := copyOf(t, b)
	if err := os.WriteFile(filepath.Join(copied.dir, "install.yaml"), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := publish(t, copied); err == nil || !strings.Contains(err.Error(), "install.yaml was changed") {
		t.Errorf("the error for a release with a changed file is %v", err)
	}
}

func TestAPublishedVersionIsNeverReplaced(t *testing.T) {
	b := release(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	p := publisher{dir: b.dir, registry: strings.TrimPrefix(server.URL, "http://"), log: io.Discard}
	other, err := random.Image(10, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.push(t.Context(), other, "allocator", version); err != nil {
		t.Fatal(err)
	}
	another, err := random.Image(10, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.push(t.Context(), another, "allocator", version); err == nil || !strings.Contains(err.Error(), "choose another version") {
		t.Errorf("the error for another image of the same version is %v", err)
	}
}

func TestInvalidKeyIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := attest.LoadKey(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("the error for an invalid key is %v", err)
	}
	encrypted, _ := cosignKey(t)
	t.Setenv("COSIGN_PASSWORD", "wrong")
	if _, err := attest.LoadKey(encrypted); err == nil || !strings.Contains(err.Error(), "COSIGN_PASSWORD") {
		t.Errorf("the error for a wrong password is %v", err)
	}
}
