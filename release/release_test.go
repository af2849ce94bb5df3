package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	statement "github.com/in-toto/attestation/go/v1"
	spdxjson "github.com/spdx/tools-golang/json"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"purelb.io/purelb/release/internal/archive"
	"purelb.io/purelb/release/internal/oci"
	"purelb.io/purelb/release/internal/source"
)

const version = "1.2.3-rc.1"

// built is one release for all tests, and its registry.
type built struct {
	dir, registry string
	err           error
}

// leftover is the folder that the tests must remove, or "" if they built no release.
var leftover string

var theRelease = sync.OnceValue(func() built {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	b := built{registry: strings.TrimPrefix(server.URL, "http://") + "/purelb"}
	dir, err := os.MkdirTemp("", "purelb-release-test-")
	if err != nil {
		return built{err: err}
	}
	leftover = dir
	b.dir = filepath.Join(dir, "release")
	b.err = makeRelease(context.Background(), "..", b)
	return b
})

func TestMain(m *testing.M) {
	code := m.Run()
	if leftover != "" {
		_ = os.RemoveAll(leftover)
	}
	os.Exit(code)
}

// makeRelease builds a release for only one platform. A build for another platform differs only in
// GOOS and GOARCH, and takes minutes the first time.
func makeRelease(ctx context.Context, tree string, b built) error {
	return run(ctx, []string{
		"build", "-version", version, "-tree", tree, "-out", b.dir, "-registry", b.registry, "-dirty",
		"-image-platforms", "linux/amd64", "-plugin-platforms", "linux/amd64",
	}, io.Discard)
}

// copyOf returns a copy for a test that writes into the folder.
func copyOf(t *testing.T, b built) built {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(b.dir)); err != nil {
		t.Fatal(err)
	}
	return built{dir: dir, registry: b.registry}
}

func release(t *testing.T) built {
	t.Helper()
	b := theRelease()
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b
}

func (b built) read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// copyTree copies the files in git, and new files that git does not ignore.
func copyTree(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("git", "-C", "..", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "elsewhere")
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join("..", name))
		if os.IsNotExist(err) {
			continue // removed, but not committed
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// The second build uses another folder without git, and other settings of the user and of Go.
func TestTheSameSourceGivesTheSameRelease(t *testing.T) {
	first := release(t)
	tree, err := source.Read(t.Context(), "..", version)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PURELB_REVISION", tree.Revision)
	t.Setenv("SOURCE_DATE_EPOCH", strconv.FormatInt(tree.Time.Unix(), 10))
	t.Setenv("GOFLAGS", "-buildvcs=false -tags=unknown")
	t.Setenv("GOAMD64", "v3")
	t.Setenv("TZ", "Asia/Tokyo")
	elsewhere := copyTree(t)
	defer syscall.Umask(syscall.Umask(0o077))
	second := built{dir: filepath.Join(t.TempDir(), "release"), registry: first.registry}
	if err := makeRelease(t.Context(), elsewhere, second); err != nil {
		t.Fatal(err)
	}
	want, got := sums(t, first), sums(t, second)
	if tree.Dirty { // the provenance records that, but a tree without git cannot know it
		delete(want, provenanceFile)
		delete(got, provenanceFile)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sums of the files (-first +second):\n%s", diff)
	}
}

func sums(t *testing.T, b built) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(string(b.read(t, sumsFile))) {
		hash, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		all[file] = hash
	}
	return all
}

func TestAllFilesAreInTheListOfSums(t *testing.T) {
	b := release(t)
	files, err := os.ReadDir(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	all := sums(t, b)
	for _, f := range files {
		if _, ok := all[f.Name()]; !ok && !strings.HasPrefix(f.Name(), sumsFile) {
			t.Errorf("%s is not in %s", f.Name(), sumsFile)
		}
	}
	if len(all) != 16 { // of one platform
		t.Errorf("the release has %d files: %v", len(all), all)
	}
}

func TestImagesHaveLabelsAndRunTheProgram(t *testing.T) {
	b := release(t)
	for _, program := range source.Programs {
		t.Run(program.Name, func(t *testing.T) {
			index, err := oci.OpenArchive(filepath.Join(b.dir, imageFile(program.Name, version)), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if err := validate.Index(index); err != nil {
				t.Error(err)
			}
			image := only(t, index)
			config, err := image.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if got := config.Config; got.User != program.User || got.Entrypoint[0] != "/"+program.Name || got.Labels["org.opencontainers.image.version"] != version {
				t.Errorf("the image runs %v as %q with the labels %v", got.Entrypoint, got.User, got.Labels)
			}
			files := unpack(t, image)
			if roots := files["etc/ssl/certs/ca-certificates.crt"]; roots == nil || bytes.Count(roots.Data, []byte("BEGIN CERTIFICATE")) < 50 {
				t.Error("the image has no certificates of public authorities")
			}
			dir := filepath.Join(t.TempDir(), "root")
			if err := os.CopyFS(dir, files); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(filepath.Join(dir, program.Name), "--help").CombinedOutput(); !strings.Contains(string(out), "log-level") {
				t.Errorf("--help ends with %v:\n%s", err, out)
			}
		})
	}
}

func only(t *testing.T, index v1.ImageIndex) v1.Image {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Platform.String() != "linux/amd64" {
		t.Fatalf("the platforms are %+v", manifest.Manifests)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func unpack(t *testing.T, image v1.Image) archive.Files {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("the image has %d layers: %v", len(layers), err)
	}
	text, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	files, err := archive.ReadTar(text)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestManifestsNameImagesByDigest(t *testing.T) {
	b := release(t)
	install := string(b.read(t, "install.yaml"))
	for _, program := range []string{"allocator", "lbnodeagent", "k8gobgp"} {
		want := b.registry + "/" + program + ":" + version + "@sha256:"
		if !strings.Contains(install, `image: "`+want) || !strings.Contains(string(b.read(t, imagesFile)), want) {
			t.Errorf("install.yaml or %s does not name %s", imagesFile, want)
		}
	}
	for _, word := range []string{"helm.sh", "managed-by", "kind: CustomResourceDefinition"} {
		if strings.Contains(install, word) {
			t.Errorf("install.yaml has %q", word)
		}
	}
	if n := strings.Count(string(b.read(t, "crds.yaml")), "kind: CustomResourceDefinition"); n != 4 {
		t.Errorf("crds.yaml has %d CustomResourceDefinitions", n)
	}
	files, err := archive.ReadTarGz(bytes.NewReader(b.read(t, "purelb-kustomize-"+version+".tar.gz")))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"purelb/install.yaml": install, "purelb/kustomization.yaml": "- install.yaml", "crds/kustomization.yaml": "- crds.yaml",
		"crds/crds.yaml": string(b.read(t, "crds.yaml")),
	} {
		if f := files[name]; f == nil || !strings.Contains(string(f.Data), want) {
			t.Errorf("the bases for kustomize have no %s as the release has it", name)
		}
	}
}

func TestPluginReportsItsRelease(t *testing.T) {
	b := release(t)
	file := "kubectl-purelb-" + version + "_linux_amd64.tar.gz"
	files, err := archive.ReadTarGz(bytes.NewReader(b.read(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "plugin")
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(dir, "kubectl-purelb"), "version", "--client").CombinedOutput()
	if err != nil || !strings.Contains(string(out), version) {
		t.Errorf("the plugin ends with %v:\n%s", err, out)
	}
	var manifest struct {
		Spec struct {
			Platforms []struct{ URI, SHA256 string }
		}
	}
	if err := yaml.Unmarshal(b.read(t, "krew-purelb.yaml"), &manifest); err != nil {
		t.Fatal(err)
	}
	if p := manifest.Spec.Platforms; len(p) != 1 || p[0].SHA256 != sums(t, b)[file] || !strings.HasSuffix(p[0].URI, "/v"+version+"/"+file) {
		t.Errorf("the krew manifest has the platforms %+v", manifest.Spec.Platforms)
	}
}

func TestEachProgramHasAnSBOM(t *testing.T) {
	b := release(t)
	for _, program := range []string{"allocator", "lbnodeagent", "k8gobgp", "kubectl-purelb"} {
		doc, err := spdxjson.Read(bytes.NewReader(b.read(t, program+"-"+version+"_linux_amd64.spdx.json")))
		if err != nil {
			t.Fatal(err)
		}
		ids := map[string]bool{}
		for _, p := range doc.Packages {
			ids[string(p.PackageSPDXIdentifier)] = true
		}
		if len(ids) != len(doc.Packages) || len(doc.Relationships) != len(doc.Packages) || doc.Packages[1].PackageName != "stdlib" || len(ids) < 10 {
			t.Errorf("the SBOM of %s has %d packages with %d identifiers and %d relations", program, len(doc.Packages), len(ids), len(doc.Relationships))
		}
	}
	doc, err := spdxjson.Read(bytes.NewReader(b.read(t, "purelb-chart-"+version+".spdx.json")))
	if err != nil || len(doc.Packages) != 1+len(source.Programs) {
		t.Errorf("the SBOM of the chart does not have all images: %v", err)
	}
}

func TestTheProvenanceIsThatOfSLSA(t *testing.T) {
	b := release(t)
	var s statement.Statement
	if err := protojson.Unmarshal(b.read(t, provenanceFile), &s); err != nil {
		t.Fatal(err)
	}
	text, err := protojson.Marshal(s.Predicate)
	if err != nil {
		t.Fatal(err)
	}
	var p provenance.Provenance
	if err := errors.Join(s.Validate(), protojson.Unmarshal(text, &p), p.Validate()); err != nil {
		t.Error(err)
	}
	if len(s.Subject) != len(sums(t, b))-1 { // all but itself
		t.Errorf("the provenance is of %d files", len(s.Subject))
	}
}

func TestWrongArgumentsAreRefused(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", "say what to do"},
		{"make", `"make" is nothing`},
		{"build -out x", `version ""`},
		{"build -version 1.2 -tree .. -out x", `version "1.2"`},
		{"build -version 1.2.3+x -tree .. -out x", `version "1.2.3+x"`},
		{"build -version 1.2.3 -tree . -out x", "no checkout of PureLB"},
		{"build -version 1.2.3 -dirty", "-out is missing"},
		{"build -version 1.2.3 -image-platforms linux", `platform "linux"`},
		{"build -version 1.2.3 -dirty -out .", "new folder"},
		{"publish", "-dir is missing"},
		{"publish -dir .", "SHA256SUMS"},
	} {
		err := run(t.Context(), strings.Fields(tt.args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("the error for %q is %v, want %q", tt.args, err, tt.want)
		}
	}
}
