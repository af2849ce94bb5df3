package image

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestTheSameProgramsGiveTheSameDigest(t *testing.T) {
	one, two := program(t, "app", "program", 0o755), program(t, "app", "program", 0o700)
	if err := os.Chtimes(two, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if a, b := digest(t, one), digest(t, two); a != b {
		t.Errorf("digests differ: %s and %s", a, b)
	}
	if digest(t, one) == digest(t, program(t, "app", "another program", 0o755)) {
		t.Error("another program gave the same digest")
	}
}

func TestAnImageHasItsProgramsAndWhatTheyExpect(t *testing.T) {
	img := image(t, program(t, "first", "program", 0o755), program(t, "second", "program", 0o755))
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/first", "/second"}, config.Config.Entrypoint); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	want := `drwxr-xr-x etc/
-rw-r--r-- etc/group
-rw-r--r-- etc/nsswitch.conf
-rw-r--r-- etc/passwd
-rwxr-xr-x first
drwx------ root/
-rwxr-xr-x second
dtrwxrwxrwx tmp/
drwxr-xr-x var/
drwxr-xr-x var/run/
`
	if diff := cmp.Diff(want, listing(t, content(t, img))); diff != "" {
		t.Errorf("layer (-want +got):\n%s", diff)
	}
}

// A container runtime asks for any registry's image at the mirror, which is the lab's registry.
func TestAPushedImageIsServedForEveryRegistry(t *testing.T) {
	server := httptest.NewServer(Registry(t.TempDir()))
	defer server.Close()
	// Like the lab, the transport leads to the registry by every name.
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
	}}
	defer transport.CloseIdleConnections()
	img := image(t, program(t, "app", "program", 0o755))
	for to, path := range map[string]string{
		"registry.lab/purelb/app:v1": "/v2/purelb/app/manifests/v1",
		"registry.k8s.io/pause:3.10": "/v2/pause/manifests/3.10",
		"lab/echo":                   "/v2/lab/echo/manifests/latest",
	} {
		pushed, err := Push(t.Context(), transport, to, img)
		if err != nil {
			t.Fatal(err)
		}
		_, header := ask(t, server.URL+path+"?ns=ghcr.io", "")
		if got := header.Get("Docker-Content-Digest"); got != pushed {
			t.Errorf("%s: digest %q, want %q", path, got, pushed)
		}
		if got := header.Get("Content-Type"); got != "application/vnd.oci.image.manifest.v1+json" {
			t.Errorf("%s: content type %q", path, got)
		}
	}
}

func TestAPullIsResumed(t *testing.T) {
	server := httptest.NewServer(Registry(t.TempDir()))
	defer server.Close()
	img := image(t, program(t, "app", "program", 0o755))
	to := strings.TrimPrefix(server.URL, "http://") + "/lab/app:v1"
	if _, err := Push(t.Context(), http.DefaultTransport, to, img); err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	hash, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := ask(t, server.URL+"/v2/lab/app/blobs/"+hash.String(), "bytes=7-"); got != content(t, img) {
		t.Errorf("%d bytes, want all %d", len(got), len(content(t, img)))
	}
}

// ask returns an answer of the registry. It fails the test if that is not 200 OK.
func ask(t *testing.T, url, bytes string) (string, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if bytes != "" {
		request.Header.Set("Range", bytes)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", url, answer.Status, err)
	}
	return string(body), answer.Header
}

func image(t *testing.T, programs ...string) v1.Image {
	t.Helper()
	img, err := New(programs...)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func digest(t *testing.T, programs ...string) string {
	t.Helper()
	hash, err := image(t, programs...).Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

func program(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return name
}

// content returns the only layer of an image.
func content(t *testing.T, img v1.Image) string {
	t.Helper()
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	r, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func listing(t *testing.T, archive string) string {
	t.Helper()
	var b strings.Builder
	for tr := tar.NewReader(strings.NewReader(archive)); ; {
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
