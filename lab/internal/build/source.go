package build

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const modulePath = "purelb.io/purelb/lab"

// Source finds the directory of the lab's module. It searches near the working directory, and then
// where this file was compiled.
func Source() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	_, file, _, _ := runtime.Caller(0)
	for _, from := range []string{dir, filepath.Dir(file)} {
		if src, ok := around(from); ok {
			return src, nil
		}
	}
	return "", errors.New("the sources of the lab are not here: run the command within the project's folder")
}

func around(dir string) (string, bool) {
	for ; ; dir = filepath.Dir(dir) {
		for _, d := range []string{dir, filepath.Join(dir, "lab")} {
			if isModule(d) {
				return d, true
			}
		}
		if dir == filepath.Dir(dir) {
			return "", false
		}
	}
}

func isModule(dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	return err == nil && strings.HasPrefix(string(b), "module "+modulePath+"\n")
}
