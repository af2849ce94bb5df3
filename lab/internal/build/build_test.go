package build

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestSourcesAreFoundWithinTheProject(t *testing.T) {
	src, err := Source()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{src, filepath.Dir(src), filepath.Join(src, "internal", "build")} {
		if got, ok := around(dir); !ok || got != src {
			t.Errorf("around(%s) = %s, %v", dir, got, ok)
		}
	}
	if got, ok := around(t.TempDir()); ok {
		t.Errorf("around finds the source %s from a folder outside of the project", got)
	}
}

func TestProgramsOfKubernetesReportTheirVersion(t *testing.T) {
	src, err := Source()
	if err != nil {
		t.Fatal(err)
	}
	for _, box := range []struct {
		module, version string
		programs        []string
	}{
		{"kubebox", kubeVersion, KubePrograms},
		{"oldest", oldestVersion, nil},
	} {
		mod, err := os.ReadFile(filepath.Join(src, box.module, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(mod), "\tk8s.io/kubernetes "+box.version+"\n") {
			t.Errorf("%s/go.mod does not require k8s.io/kubernetes %s", box.module, box.version)
		}
		program, err := os.ReadFile(filepath.Join(src, box.module, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range box.programs {
			if !strings.Contains(string(program), `"`+name+`":`) {
				t.Errorf("%s/main.go does not know %s", box.module, name)
			}
		}
	}
}

func TestOnlyChangedSourcesAreBuiltAgain(t *testing.T) {
	src, dir := t.TempDir(), t.TempDir()
	write(t, src, "go.mod", "module example.com/x\n\ngo 1.26.0\n")
	write(t, src, "cmd/x/main.go", "package main\n\nfunc main() { println(1) }\n")
	x := target{name: "x", module: ".", pkg: "./cmd/x", ldflags: ldflags}
	build := func() os.FileInfo {
		t.Helper()
		if err := x.make(t.Context(), src, dir, new(bytes.Buffer)); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(filepath.Join(dir, "x"))
		if err != nil {
			t.Fatal(err)
		}
		return fi
	}
	first := build()
	if !os.SameFile(first, build()) {
		t.Error("the target was built again without a change")
	}
	write(t, src, "cmd/x/main.go", "package main\n\nfunc main() { println(2) }\n")
	if os.SameFile(first, build()) {
		t.Error("the target was not built again after a change")
	}
}

func TestFailedBuildShowsCompilerErrors(t *testing.T) {
	src := t.TempDir()
	write(t, src, "go.mod", "module example.com/x\n\ngo 1.26.0\n")
	write(t, src, "main.go", "package main\n\nfunc main() { undefined() }\n")
	err := target{name: "x", module: ".", pkg: "."}.make(t.Context(), src, t.TempDir(), new(bytes.Buffer))
	if err == nil || !strings.Contains(err.Error(), "undefined: undefined") {
		t.Errorf("error is %v", err)
	}
}

func TestALongStepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := step(ctx, new(bytes.Buffer), "sleeping", exec.CommandContext(ctx, "sleep", "1000"))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func TestProgressCountsPackages(t *testing.T) {
	said := &transcript{}
	if got := said.progress(); got != "" {
		t.Errorf("progress without output: %q", got)
	}
	write := "go: downloading k8s.io/api v0.36.3\nk8s.io/apimachinery/pkg/types\n"
	if _, err := said.Write([]byte(write)); err != nil {
		t.Fatal(err)
	}
	if got, want := said.progress(), ", 2 so far, now at k8s.io/apimachinery/pkg/types"; got != want {
		t.Errorf("progress is %q, want %q", got, want)
	}
}

func TestALinkIsReplacedInOneStep(t *testing.T) {
	at := filepath.Join(t.TempDir(), "bin")
	for _, to := range []string{"one", "one", "two"} {
		if err := link(to, at); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(at); got != to {
			t.Errorf("link leads to %q, %v; want %q", got, err, to)
		}
	}
}

func TestUnknownTargetIsAnError(t *testing.T) {
	if _, err := Build(t.Context(), new(bytes.Buffer), "docker"); err == nil {
		t.Error("an unknown program was built")
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
