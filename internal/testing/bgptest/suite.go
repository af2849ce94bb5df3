package bgptest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Suite is a set of routing daemons: FRR and BIRD of one release of Debian. The zero Suite is what this
// machine has installed.
type Suite struct {
	// root is the directory of unpacked packages.
	root string
	// loader is the dynamic linker in root. libraries are the directories of its libraries.
	loader, libraries string
}

// Debian returns the daemons of a release of Debian, such as "trixie", which `make routers` unpacks
// into the user's cache directory. They run by their own dynamic linker and libraries.
func Debian(t testing.TB, release string) Suite {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(cache, "purelb-lab", "routers", release)
	loaders, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu/ld-linux-*.so.*"))
	if len(loaders) == 0 {
		loaders, _ = filepath.Glob(filepath.Join(root, "lib/*-linux-gnu/ld-linux-*.so.*"))
	}
	if len(loaders) == 0 {
		t.Fatalf("%s holds no routers: run `make routers` as root", root)
	}
	arch := filepath.Base(filepath.Dir(loaders[0]))
	var libraries []string
	for _, dir := range []string{"lib", "usr/lib"} {
		libraries = append(libraries, filepath.Join(root, dir, arch))
	}
	libraries = append(libraries, filepath.Join(root, "usr/lib", arch, "frr"))
	return Suite{root, loaders[0], strings.Join(libraries, ":")}
}

// command returns the command that runs a program, which is named by its path.
func (s Suite) command(path string, args ...string) *exec.Cmd {
	if s.root == "" {
		return exec.Command(path, args...)
	}
	return exec.Command(s.loader, append([]string{"--library-path", s.libraries, s.root + path}, args...)...)
}
