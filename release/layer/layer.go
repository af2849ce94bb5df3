// Package layer writes the only layer of an image that consists of static programs. The same files
// give the same bytes.
package layer

import (
	"archive/tar"
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// File is a file of the layer. A folder in From means all files in it.
type File struct {
	// From is the path of a file or folder on this machine. If it is empty, Text is the content.
	From string
	// To is the path in the image.
	To   string
	Text string
}

// entry is a file of the layer. It is a directory if it has neither text nor source.
type entry struct {
	path string // without the leading slash
	text string
	from string
	mode int64
}

// base has the files that a program may expect even in an image from scratch.
var base = []entry{
	{path: "etc/passwd", mode: 0o644, text: "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n"},
	{path: "etc/group", mode: 0o644, text: "root:x:0:\nnogroup:x:65534:\n"},
	{path: "etc/nsswitch.conf", mode: 0o644, text: "hosts: files dns\n"},
	{path: "root", mode: 0o700},
	{path: "tmp", mode: 0o1777},
	{path: "var/run", mode: 0o755},
}

// Write writes a tar archive. Its bytes do not depend on the day, the user or the order of the
// files.
func Write(w io.Writer, files []File) error {
	entries, err := collect(files)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	for _, e := range withParents(entries) {
		if err := e.write(tw); err != nil {
			return fmt.Errorf("/%s: %w", e.path, err)
		}
	}
	return tw.Close()
}

// collect lists the files, and those in directories, after the base.
func collect(files []File) ([]entry, error) {
	entries := slices.Clone(base)
	for _, f := range files {
		if f.From == "" {
			entries = append(entries, entry{path: strings.TrimPrefix(f.To, "/"), text: f.Text, mode: 0o644})
			continue
		}
		err := filepath.WalkDir(f.From, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			rel, err := filepath.Rel(f.From, p)
			if err != nil {
				return err
			}
			e, err := regular(p, path.Join(f.To, filepath.ToSlash(rel)))
			entries = append(entries, e)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return entries, nil
}

func regular(from, to string) (entry, error) {
	fi, err := os.Stat(from)
	if err != nil {
		return entry{}, err
	}
	if !fi.Mode().IsRegular() {
		return entry{}, fmt.Errorf("%s: only files and directories can go into an image", from)
	}
	mode := int64(0o644)
	if fi.Mode()&0o111 != 0 {
		mode = 0o755
	}
	return entry{path: strings.TrimPrefix(to, "/"), from: from, mode: mode}, nil
}

// withParents adds missing directories, drops files that a later file replaces, and sorts by path.
func withParents(entries []entry) []entry {
	all := map[string]entry{}
	for _, e := range entries {
		for dir := path.Dir(e.path); dir != "."; dir = path.Dir(dir) {
			if _, have := all[dir]; !have {
				all[dir] = entry{path: dir, mode: 0o755}
			}
		}
		all[e.path] = e
	}
	var sorted []entry
	for _, e := range all {
		sorted = append(sorted, e)
	}
	slices.SortFunc(sorted, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	return sorted
}

func (e entry) write(tw *tar.Writer) error {
	switch {
	case e.from != "":
		return e.copy(tw)
	case e.text == "":
		return tw.WriteHeader(&tar.Header{Name: e.path + "/", Typeflag: tar.TypeDir, Mode: e.mode})
	}
	if err := tw.WriteHeader(&tar.Header{Name: e.path, Size: int64(len(e.text)), Mode: e.mode}); err != nil {
		return err
	}
	_, err := io.WriteString(tw, e.text)
	return err
}

func (e entry) copy(tw *tar.Writer) error {
	f, err := os.Open(e.from)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if err := tw.WriteHeader(&tar.Header{Name: e.path, Size: fi.Size(), Mode: e.mode}); err != nil {
		return err
	}
	_, err = io.Copy(tw, f)
	return err
}
