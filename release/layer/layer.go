// Package layer writes the only layer of an image that consists of static programs. The same files
// give the same bytes.
package layer

import (
	"io"
	"io/fs"
	"maps"
	"path"
	"strings"
	"testing/fstest"
	"time"

	"purelb.io/purelb/release/internal/archive"
)

// File is a file of the layer. A folder in From means all files in it.
type File struct {
	// From is the path of a file or folder on this machine. If it is empty, Text is the content.
	From string
	// To is the path in the image.
	To   string
	Text string
}

// base has the files that a program may expect even in an image from scratch.
var base = archive.Files{
	"etc/passwd":        archive.File([]byte("root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n")),
	"etc/group":         archive.File([]byte("root:x:0:\nnogroup:x:65534:\n")),
	"etc/nsswitch.conf": archive.File([]byte("hosts: files dns\n")),
	"root":              folder(0o700),
	"tmp":               folder(fs.ModeSticky | 0o777),
	"var/run":           folder(0o755),
}

func folder(mode fs.FileMode) *fstest.MapFile { return &fstest.MapFile{Mode: fs.ModeDir | mode} }

// Write writes a tar archive. Its bytes do not depend on the day, the user or the order of the
// files.
func Write(w io.Writer, files []File) error {
	all := maps.Clone(base)
	for _, f := range files {
		to := strings.TrimPrefix(f.To, "/")
		if f.From == "" {
			all[to] = archive.File([]byte(f.Text))
			continue
		}
		found, err := archive.Read(f.From)
		if err != nil {
			return err
		}
		for name, file := range found {
			all[path.Join(to, name)] = file
		}
	}
	return archive.Tar(w, time.Unix(0, 0), all)
}
