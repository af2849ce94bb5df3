package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"purelb.io/purelb/lab/internal/image"
)

// uploads accepts pushed images. An upload is a file beside the store's blobs until it is
// complete.
type uploads struct{ image.Store }

func (u uploads) handle(mux *http.ServeMux) {
	mux.HandleFunc("POST /v2/{path...}", u.begin)
	mux.HandleFunc("PATCH /v2/{path...}", u.part)
	mux.HandleFunc("PUT /v2/{path...}", func(w http.ResponseWriter, r *http.Request) {
		if repository, reference, ok := cutLast(r.PathValue("path"), "/manifests/"); ok {
			u.manifest(w, r, repository, reference)
			return
		}
		u.end(w, r)
	})
}

// begin answers NAME/blobs/uploads/.
func (u uploads) begin(w http.ResponseWriter, r *http.Request) {
	repository, ok := strings.CutSuffix(r.PathValue("path"), "/blobs/uploads/")
	if !ok {
		refuse(w, os.ErrNotExist)
		return
	}
	file, err := os.CreateTemp(u.Dir, "upload-")
	if err != nil {
		refuse(w, err)
		return
	}
	_ = file.Close()
	w.Header().Set("Location", "/v2/"+repository+"/blobs/uploads/"+filepath.Base(file.Name()))
	w.WriteHeader(http.StatusAccepted)
}

// part appends to an upload.
func (u uploads) part(w http.ResponseWriter, r *http.Request) {
	if err := u.add(r); err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Location", r.URL.Path)
	w.WriteHeader(http.StatusAccepted)
}

// add appends the body of the request to its upload.
func (u uploads) add(r *http.Request) error {
	file, err := os.OpenFile(u.file(r), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, r.Body)
	return errors.Join(err, file.Close())
}

// file returns the path of the file for the upload that a request names.
func (u uploads) file(r *http.Request) string {
	_, id, ok := cutLast(r.PathValue("path"), "/blobs/uploads/upload-")
	if !ok || strings.ContainsFunc(id, func(c rune) bool { return c < '0' || c > '9' }) {
		return filepath.Join(u.Dir, "none")
	}
	return filepath.Join(u.Dir, "upload-"+id)
}

// end accepts the last part of an upload and the digest of the whole upload.
func (u uploads) end(w http.ResponseWriter, r *http.Request) {
	digest, err := u.complete(r)
	if err == nil {
		err = same(digest, r.URL.Query().Get("digest"))
	}
	created(w, digest, err)
}

func (u uploads) complete(r *http.Request) (digest string, err error) {
	if err := u.add(r); err != nil {
		return "", err
	}
	file, err := os.Open(u.file(r))
	if err != nil {
		return "", err
	}
	digest, err = u.Add(file)
	return digest, errors.Join(err, file.Close(), os.Remove(file.Name()))
}

// manifest accepts the manifest of an image, or an index of several images. The reference is a tag
// or a digest.
func (u uploads) manifest(w http.ResponseWriter, r *http.Request, repository, reference string) {
	digest, err := u.Add(r.Body)
	switch {
	case err != nil:
	case strings.HasPrefix(reference, "sha256:"):
		err = same(digest, reference)
	default:
		var name image.Name
		if name, err = image.ParseName(repository + ":" + reference); err != nil {
			err = fmt.Errorf("%w: %w", errRequest, err)
		} else {
			err = u.Tag(name, digest)
		}
	}
	created(w, digest, err)
}

// errRequest is an error of the client.
var errRequest = errors.New("wrong request")

func same(digest, want string) error {
	if digest != want {
		return fmt.Errorf("%w: the digest is %s, and the client says %s", errRequest, digest, want)
	}
	return nil
}

func created(w http.ResponseWriter, digest string, err error) {
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Docker-Content-Digest", digest)
	w.WriteHeader(http.StatusCreated)
}
