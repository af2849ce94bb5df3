package registry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purelb.io/purelb/lab/internal/image"
)

func TestAnImageIsServedUnderEveryRegistrysName(t *testing.T) {
	store, digest := fill(t)
	server := httptest.NewServer(Handler(store))
	defer server.Close()
	for _, path := range []string{
		"/v2/",
		"/v2/lab/app/manifests/v1",
		"/v2/lab/app/manifests/v1?ns=ghcr.io",
		"/v2/lab/app/manifests/" + digest,
		"/v2/another/name/blobs/" + digest,
	} {
		if code, _ := ask(t, server.URL+path); code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
	}
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	store, _ := fill(t)
	server := httptest.NewServer(Handler(store))
	defer server.Close()
	for _, path := range []string{
		"/v2/lab/app/manifests/v2",
		"/v2/lab/unknown/manifests/v1",
		"/v2/lab/app/blobs/sha256:" + strings.Repeat("0", 64),
		"/v2/lab/app/blobs/sha256:..%2f..%2fnames",
		"/v2/lab/app/manifests/..%2f..%2f..%2fetc",
		"/v2/lab/app/elsewhere",
	} {
		if code, _ := ask(t, server.URL+path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
}

func TestTheManifestIsServedAsWhatItIs(t *testing.T) {
	store, digest := fill(t)
	server := httptest.NewServer(Handler(store))
	defer server.Close()
	_, header := ask(t, server.URL+"/v2/lab/app/manifests/v1")
	if got := header.Get("Content-Type"); got != image.Manifest {
		t.Errorf("content type %q", got)
	}
	if got := header.Get("Docker-Content-Digest"); got != digest {
		t.Errorf("digest %q, want %q", got, digest)
	}
}

func fill(t *testing.T) (store image.Store, digest string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "app")
	if err := os.WriteFile(file, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	store = image.Store{Dir: t.TempDir()}
	digest, err := store.Put(image.Name{Repository: "lab/app", Tag: "v1"},
		image.Image{Entry: []string{"/app"}, Files: []image.File{{From: file, To: "/app"}}})
	if err != nil {
		t.Fatal(err)
	}
	return store, digest
}

func ask(t *testing.T, url string) (int, http.Header) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header
}
