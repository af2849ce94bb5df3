package apitest

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// wrapper runs one program of a binary that has several. It ensures that the program ends with the test binary, which
// go test kills without warning at its timeout. A watcher checks every second that both still run.
// $PPID is the test binary. $$ is the program, because exec keeps the process id.
const wrapper = `#!/bin/sh
(
	trap '' INT
	while kill -0 "$PPID" && kill -0 $$; do sleep 1; done
	kill -0 "$PPID" || { kill -KILL $$; sleep 1; rm -rf '%[3]s'; }
) >/dev/null 2>&1 </dev/null &
exec '%[1]s' %[2]s "$@"
`

// installPrograms writes the programs of a control plane into bin.
func installPrograms(bin string) error {
	box, err := findKubebox()
	if err != nil {
		return err
	}
	if err := os.Mkdir(bin, 0o700); err != nil {
		return err
	}
	if err := os.Symlink(box, filepath.Join(bin, "kubectl")); err != nil {
		return err
	}
	link := filepath.Join(bin, "kubebox")
	if err := os.Symlink(box, link); err != nil {
		return err
	}
	for name, program := range map[string]string{
		"etcd":           link,
		"kube-apiserver": cmp.Or(os.Getenv("PURELB_APISERVER"), link),
	} {
		script := fmt.Sprintf(wrapper, program, name, filepath.Dir(bin))
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// findKubebox returns the path of the kubebox binary: the one in PURELB_KUBEBOX, or the one that
// the lab builds.
func findKubebox() (string, error) {
	path := os.Getenv("PURELB_KUBEBOX")
	if path == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		path = filepath.Join(cache, "purelb-lab", "bin", "kubebox")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("these tests need kubebox (etcd and kube-apiserver in one binary): "+
			"run `make kubebox`, or set PURELB_KUBEBOX to the path of one: %w", err)
	}
	return path, nil
}

// findCRDs returns the folder of the custom resource definitions, relative to the folder of
// the test.
func findCRDs() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		crds := filepath.Join(dir, "charts", "purelb", "crds")
		_, err := os.Stat(crds)
		if err == nil {
			return crds, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		return "", errors.New("no folder charts/purelb/crds above the folder of the test")
	}
}
