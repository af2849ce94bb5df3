// Package archive packs files. The same files always give the same bytes, independent of the user
// and the time.
package archive

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"testing/fstest"
	"time"
)

// Files are files, and folders whose rights matter, by their names. They are a file system in memory.
type Files = fstest.MapFS

// File returns a file that all may read.
func File(text []byte) *fstest.MapFile { return &fstest.MapFile{Data: text, Mode: 0o644} }

// Program returns a file that all may run.
func Program(text []byte) *fstest.MapFile { return &fstest.MapFile{Data: text, Mode: 0o755} }

// dated returns the files with all folders that they lie in. All of them have the time at.
func dated(files Files, at time.Time) Files {
	all := Files{}
	for name, f := range files {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if files[dir] == nil {
				all[dir] = &fstest.MapFile{Mode: fs.ModeDir | 0o755, ModTime: at}
			}
		}
		all[name] = &fstest.MapFile{Data: f.Data, Mode: f.Mode, ModTime: at}
	}
	return all
}

// Tar packs the files in the order of their names. All of them get the time at.
func Tar(w io.Writer, at time.Time, files Files) error {
	tw := tar.NewWriter(w)
	return errors.Join(tw.AddFS(dated(files, at)), tw.Close())
}

// TarGz packs the files and compresses them.
func TarGz(w io.Writer, at time.Time, files Files) error {
	zw, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(Tar(zw, at, files), zw.Close())
}

// Zip packs the files as a zip archive, which is usual on Windows.
func Zip(w io.Writer, at time.Time, files Files) error {
	zw := zip.NewWriter(w)
	return errors.Join(zw.AddFS(dated(files, at)), zw.Close())
}

// ReadTarGz returns the regular files of a compressed archive.
func ReadTarGz(r io.Reader) (Files, error) {
	zr, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	return ReadTar(zr)
}

// ReadTar returns the regular files of an archive.
func ReadTar(r io.Reader) (Files, error) {
	files := Files{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(tr)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
		files[h.Name] = &fstest.MapFile{Data: text, Mode: fs.FileMode(h.Mode)}
	}
}

// Read returns the files of a folder and its subfolders, by their paths in it. A file is ".".
func Read(from string) (Files, error) {
	files := Files{}
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := os.Stat(name) // of what a link leads to
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s: only files and folders can go into an archive", name)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(from, name)
		files[filepath.ToSlash(inside)] = File(text)
		if info.Mode()&0o111 != 0 {
			files[filepath.ToSlash(inside)] = Program(text)
		}
		return err
	})
	return files, err
}
