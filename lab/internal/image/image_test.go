package image

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTheSameFilesGiveTheSameDigest(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	file(t, one, "app", "program", 0o755)
	file(t, two, "app", "program", 0o700)
	if err := os.Chtimes(filepath.Join(two, "app"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	a, b := put(t, one, "app"), put(t, two, "app")
	if a != b {
		t.Errorf("digests differ: %s and %s", a, b)
	}
	file(t, two, "app", "another program", 0o755)
	if c := put(t, two, "app"); c == a {
		t.Error("another file gave the same digest")
	}
}

func TestLayerHasTheFilesAndTheirUser(t *testing.T) {
	dir := t.TempDir()
	file(t, dir, "app", "program", 0o755)
	file(t, dir, "conf/x.yaml", "x", 0o644)
	store := Store{t.TempDir()}
	digest, err := store.Put(Name{"example/app", "v1"}, Image{
		Entry: []string{"/bin/app"},
		Files: []File{{From: filepath.Join(dir, "app"), To: "/bin/app"}, {From: filepath.Join(dir, "conf"), To: "/conf"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `drwxr-xr-x bin/
-rwxr-xr-x bin/app
drwxr-xr-x conf/
-rw-r--r-- conf/x.yaml
drwxr-xr-x etc/
-rw-r--r-- etc/group
-rw-r--r-- etc/nsswitch.conf
-rw-r--r-- etc/passwd
drwx------ root/
dtrwxrwxrwx tmp/
drwxr-xr-x var/
drwxr-xr-x var/run/
`
	if diff := cmp.Diff(want, listing(t, store, digest)); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
}

func TestAnImageIsFoundByItsName(t *testing.T) {
	dir := t.TempDir()
	file(t, dir, "app", "program", 0o755)
	store := Store{t.TempDir()}
	digest, err := store.Put(Name{"example/app", "v1"}, Image{Files: []File{{From: filepath.Join(dir, "app"), To: "/app"}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := store.Digest(Name{"example/app", "v1"}); err != nil || got != digest {
		t.Errorf("Digest = %q, %v; want %q", got, err, digest)
	}
	if _, err := store.Digest(Name{"example/app", "v2"}); !os.IsNotExist(err) {
		t.Errorf("the error of an unknown tag is %v", err)
	}
}

func TestNamesLoseTheirRegistry(t *testing.T) {
	tests := []struct{ in, want string }{
		{"echo", "echo:latest"},
		{"lab/echo", "lab/echo:latest"},
		{"lab/echo:1", "lab/echo:1"},
		{"docker.io/library/echo:1", "echo:1"},
		{"ghcr.io/purelb/purelb/allocator:v1.2", "purelb/purelb/allocator:v1.2"},
		{"localhost:5000/app", "app:latest"},
		{"registry.k8s.io/pause:3.10", "pause:3.10"},
	}
	for _, tt := range tests {
		got, err := ParseName(tt.in)
		if err != nil || got.String() != tt.want {
			t.Errorf("ParseName(%q) = %v, %v; want %s", tt.in, got, err, tt.want)
		}
	}
}

func TestInvalidImageNamesAreRefused(t *testing.T) {
	for _, in := range []string{"", ":v1", "a//b", "../../etc/passwd", "a/../b", "app:", "app:a b", "app@sha256:00"} {
		if got, err := ParseName(in); err == nil {
			t.Errorf("ParseName(%q) = %v", in, got)
		}
	}
}

func put(t *testing.T, dir, name string) string {
	t.Helper()
	digest, err := Store{t.TempDir()}.Put(Name{"app", "v1"}, Image{
		Entry: []string{"/app"}, Files: []File{{From: filepath.Join(dir, name), To: "/app"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func file(t *testing.T, dir, name, text string, mode os.FileMode) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

func listing(t *testing.T, s Store, manifest string) string {
	t.Helper()
	var m struct{ Layers []descriptor }
	f, err := s.Open(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(f).Decode(&m); err != nil {
		t.Fatal(err)
	}
	if f, err = s.Open(m.Layers[0].Digest); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b strings.Builder
	for tr := tar.NewReader(f); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, h.FileInfo().Mode(), h.Name)
	}
}
