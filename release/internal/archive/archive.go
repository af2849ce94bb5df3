// Package archive packs files. The same files always give the same bytes, independent of the user
// and the time.
package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// File is a file of an archive.
type File struct {
	Name       string
	Text       []byte
	Executable bool
}

func (f File) mode() fs.FileMode {
	if f.Executable {
		return 0o755
	}
	return 0o644
}

// Sorted returns the files by their names.
func Sorted(files []File) []File {
	return slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Name, b.Name) })
}

// Tar packs the files in the order of their names. All of them get the time at.
func Tar(w io.Writer, at time.Time, files []File) error {
	tw := tar.NewWriter(w)
	for _, f := range Sorted(files) {
		h := &tar.Header{Name: f.Name, Size: int64(len(f.Text)), Mode: int64(f.mode()), ModTime: at, Format: tar.FormatUSTAR}
		if err := tw.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if _, err := tw.Write(f.Text); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return tw.Close()
}

// TarGz packs the files and compresses them.
func TarGz(w io.Writer, at time.Time, files []File) error {
	zw, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(Tar(zw, at, files), zw.Close())
}

// Zip packs the files as a zip archive, which is usual on Windows.
func Zip(w io.Writer, at time.Time, files []File) error {
	zw := zip.NewWriter(w)
	for _, f := range Sorted(files) {
		h := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode())
		to, err := zw.CreateHeader(h)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if _, err := to.Write(f.Text); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return zw.Close()
}

// ReadTarGz returns the regular files of a compressed archive.
func ReadTarGz(r io.Reader) ([]File, error) {
	zr, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	return ReadTar(zr)
}

// ReadTar returns the regular files of an archive.
func ReadTar(r io.Reader) ([]File, error) {
	var files []File
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		var text bytes.Buffer
		if _, err := io.Copy(&text, tr); err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
		files = append(files, File{Name: h.Name, Text: text.Bytes(), Executable: h.Mode&0o111 != 0})
	}
}

// ReadDir returns the files of a folder and its subfolders.
func ReadDir(dir string) ([]File, error) {
	var files []File
	root := os.DirFS(dir)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, name)
		files = append(files, File{Name: name, Text: text})
		return err
	})
	return files, err
}

// WriteDir writes the files into a folder. A name that leads out of the folder is an error.
func WriteDir(dir string, files []File) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		if err := root.MkdirAll(path.Dir(f.Name), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(f.Name, f.Text, f.mode()); err != nil {
			return err
		}
	}
	return nil
}
