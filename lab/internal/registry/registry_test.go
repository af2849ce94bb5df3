package registry

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purelb.io/purelb/lab/internal/image"
)

func TestImageIsServedForEveryRegistry(t *testing.T) {
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

func TestMissingImageIsNotFound(t *testing.T) {
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

func TestManifestHasItsMediaType(t *testing.T) {
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

func TestAPushedImageIsServed(t *testing.T) {
	store := image.Store{Dir: t.TempDir()}
	server := httptest.NewServer(Handler(store))
	defer server.Close()
	part := push(t, server.URL, "first, ", "second")
	manifest := `{"mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []}`
	if code, header := send(t, http.MethodPut, server.URL+"/v2/lab/app/manifests/1.2.3", manifest); code != http.StatusCreated {
		t.Fatalf("the answer to the push of the manifest is %d %v", code, header)
	}
	for path, want := range map[string]string{
		"/v2/lab/app/blobs/" + part:                 "application/octet-stream",
		"/v2/lab/app/manifests/1.2.3":               "application/vnd.oci.image.index.v1+json",
		"/v2/other/app/blobs/" + digest(manifest):   "application/octet-stream",
		"/v2/lab/app/manifests/" + digest(manifest): "application/vnd.oci.image.index.v1+json",
	} {
		if code, header := ask(t, server.URL+path); code != http.StatusOK || header.Get("Content-Type") != want {
			t.Errorf("%s: %d, content type %q, want %q", path, code, header.Get("Content-Type"), want)
		}
	}
}

// push uploads two parts as one blob, and returns its digest.
func push(t *testing.T, server, first, second string) string {
	t.Helper()
	code, header := send(t, http.MethodPost, server+"/v2/lab/app/blobs/uploads/", "")
	if code != http.StatusAccepted {
		t.Fatalf("the answer to the start of an upload is %d", code)
	}
	at, sum := server+header.Get("Location"), digest(first+second)
	if code, _ := send(t, http.MethodPatch, at, first); code != http.StatusAccepted {
		t.Fatalf("the answer to a part of an upload is %d", code)
	}
	if code, _ := send(t, http.MethodPut, at+"?digest="+sum, second); code != http.StatusCreated {
		t.Fatalf("the answer to the end of an upload is %d", code)
	}
	return sum
}

func TestABrokenPushIsRefused(t *testing.T) {
	server := httptest.NewServer(Handler(image.Store{Dir: t.TempDir()}))
	defer server.Close()
	_, header := send(t, http.MethodPost, server.URL+"/v2/lab/app/blobs/uploads/", "")
	for _, tt := range []struct {
		method, path string
		want         int
	}{
		{http.MethodPut, header.Get("Location") + "?digest=" + digest("other"), http.StatusBadRequest},
		{http.MethodPut, "/v2/lab/app/manifests/" + digest("other"), http.StatusBadRequest},
		{http.MethodPut, "/v2/lab/app/manifests/.hidden", http.StatusBadRequest},
		{http.MethodPatch, "/v2/lab/app/blobs/uploads/upload-0", http.StatusNotFound},
		{http.MethodPatch, "/v2/lab/app/blobs/uploads/upload-..%2fnames", http.StatusNotFound},
		{http.MethodPost, "/v2/lab/app/elsewhere", http.StatusNotFound},
	} {
		if code, _ := send(t, tt.method, server.URL+tt.path, "text"); code != tt.want {
			t.Errorf("%s %s: %d, want %d", tt.method, tt.path, code, tt.want)
		}
	}
}

func digest(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

func send(t *testing.T, method, url, body string) (int, http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header
}
