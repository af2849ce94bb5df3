// Package registry serves images to container runtimes, and accepts pushed images and charts, by
// the OCI distribution protocol. It answers for every registry, so the name of the registry in a
// request has no effect.
package registry

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"time"

	"purelb.io/purelb/lab/internal/image"
)

// Handler serves the images of a store, including later ones.
func Handler(s image.Store) http.Handler {
	mux := http.NewServeMux()
	uploads{s}.handle(mux)
	mux.HandleFunc("GET /v2/{path...}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("path") != "" {
			serve(w, r, s)
		}
	})
	return mux
}

func serve(w http.ResponseWriter, r *http.Request, s image.Store) {
	digest, mediaType := find(s, r.PathValue("path"))
	blob, err := s.Open(digest)
	if err != nil {
		refuse(w, err)
		return
	}
	defer blob.Close()
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Docker-Content-Digest", digest)
	http.ServeContent(w, r, "", time.Time{}, blob)
}

// find reads NAME/blobs/DIGEST, NAME/manifests/DIGEST and NAME/manifests/TAG.
func find(s image.Store, path string) (digest, mediaType string) {
	if i := strings.LastIndex(path, "/blobs/"); i >= 0 {
		return path[i+len("/blobs/"):], "application/octet-stream"
	}
	repo, reference, _ := cutLast(path, "/manifests/")
	if strings.HasPrefix(reference, "sha256:") {
		return reference, s.MediaType(reference)
	}
	name, err := image.ParseName(repo + ":" + reference)
	if err != nil {
		return "", ""
	}
	digest, _ = s.Digest(name)
	return digest, s.MediaType(digest)
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, os.ErrNotExist):
		status = http.StatusNotFound
	case errors.Is(err, errRequest):
		status = http.StatusBadRequest
	}
	http.Error(w, `{"errors":[{"code":"MANIFEST_UNKNOWN"}]}`, status)
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
