// Package buildinfo says which release a program is of. It knows nothing of what
// the program does.
package buildinfo

import (
	"cmp"
	"runtime/debug"
	"strings"
)

// release is set by the linker, when a release is built ("make release").
var release string

// Version is the release of this program, or what the Go toolchain noted of a build
// that is no release: a version and the commit, as far as these are known.
func Version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := cmp.Or(info.Main.Version, "unknown")
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return version + " " + s.Value
		}
	}
	return version
}

// Tag is the tag of this program's release in Git, or the branch of a build that is no release.
func Tag() string { return tagOf(release) }

func tagOf(release string) string {
	if release == "" || strings.Contains(release, "-main.") {
		return "main"
	}
	return "v" + release
}
