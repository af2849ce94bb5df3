// Package chart tests the Helm chart: what it renders is compared with what
// PureLB promises of its rights and its security, and given to a real API server.
package chart

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestMain(m *testing.M) {
	if err := touchChart(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(apitest.Run(m))
}

// touchChart opens every file of the chart: Helm reads them in a process of its
// own, and go test takes a result from its cache unless it has seen what a test
// depends on.
func touchChart() error {
	return filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		_, err = os.ReadFile(path)
		return err
	})
}

// helmPath builds the pinned Helm at first use, and returns where it is.
var helmPath = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "tool", "-modfile=../../tools/go.mod", "-n", "helm").Output()
	if err != nil {
		return "", fmt.Errorf("build Helm from tools/go.mod: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

// helm runs Helm. What it warns of is a second output, and part of the error
// when it fails.
func helm(t *testing.T, args ...string) (out, warnings string, err error) {
	t.Helper()
	return helmReading(t, "", args...)
}

// helmReading runs Helm with an input.
func helmReading(t *testing.T, input string, args ...string) (out, warnings string, err error) {
	t.Helper()
	path, err := helmPath()
	expect.NoError(t, err)
	var stderr bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(input), &stderr
	text, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("helm %s: %w\n%s", args[0], err, stderr.String())
	}
	return string(text), stderr.String(), err
}

// rendered is what Helm has rendered so far. Many tests look at the chart without values.
var rendered = map[string]string{}

// renderAll returns the objects of the chart with these values (YAML) in their order.
func renderAll(t *testing.T, values string) ([]*unstructured.Unstructured, error) {
	t.Helper()
	return renderAs(t, "purelb", "purelb-system", values)
}

// renderAs renders as a release of that name in that namespace. A key that an object has twice is an
// error: Helm takes the second one, and tools such as kustomize refuse the object.
func renderAs(t *testing.T, release, namespace, values string) (objects []*unstructured.Unstructured, err error) {
	t.Helper()
	what := fmt.Sprint(release, namespace, values)
	out, ok := rendered[what]
	if !ok {
		out, _, err = helmReading(t, values, "template", release, ".", "--namespace", namespace, "--kube-version", "1.36.0", "--values", "-")
		if err != nil {
			return nil, err
		}
		rendered[what] = out
	}
	for document := range strings.SplitSeq(out, "\n---\n") {
		var o unstructured.Unstructured
		if err := yaml.UnmarshalStrict([]byte(document), &o.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o.Object) > 0 {
			objects = append(objects, &o)
		}
	}
	return objects, nil
}

func mustRender(t *testing.T, values string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := renderAll(t, values)
	expect.NoError(t, err)
	return objects
}

// install installs the chart as an administrator does, with a namespace of its own.
func install(t *testing.T, server *apitest.Server, args ...string) {
	t.Helper()
	args = append([]string{"install", "purelb", ".", "--namespace", "purelb-system", "--create-namespace", "--kubeconfig", server.Kubeconfig}, args...)
	if _, _, err := helm(t, args...); err != nil {
		t.Fatal(err)
	}
}

func TestHelmFindsNothingToComplainOf(t *testing.T) {
	if out, _, err := helm(t, "lint", "--strict", "--kube-version", "1.36.0", "."); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestUnsupportedKubernetesIsRefused(t *testing.T) {
	_, _, err := helm(t, "template", "purelb", ".", "--kube-version", "1.30.14")
	if err == nil || !strings.Contains(err.Error(), ">=1.31.0") {
		t.Errorf("Kubernetes 1.30 cannot select Services by their type, but the error is %v", err)
	}
}

// The examples of docs/ipam.md are values for a server with volumes.
func TestIPAMValuesInTheManualWork(t *testing.T) {
	examples := strings.Split(apitest.Text(t, "docs/ipam.md"), "\n```\nallocator:\n")[1:]
	if len(examples) == 0 {
		t.Fatal("the page has no values")
	}
	for _, example := range examples {
		values, _, _ := strings.Cut(example, "```")
		mounts := "{.containers[1].name}: {.containers[1].volumeMounts[*].name} of {.volumes[*].name}"
		got := ask(t, mustRender(t, "allocator:\n"+values), "pod allocator "+mounts)
		expect.Equal(t, "mounts", got, []string{"ipam: state ipam-socket ipam-no-token of ipam-socket ipam-no-token state"})
	}
}
