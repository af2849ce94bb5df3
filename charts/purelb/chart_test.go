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
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"purelb.io/purelb/internal/testing/apitest"
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
	path, err := helmPath()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("helm %s: %w\n%s", args[0], err, stderr.String())
	}
	return string(text), stderr.String(), err
}

// render returns the objects of the chart with these values (YAML), by
// "Kind name".
func render(t *testing.T, values string) (map[string]*unstructured.Unstructured, error) {
	t.Helper()
	return renderAs(t, "purelb", "purelb-system", values)
}

// renderAs renders as a release of that name in that namespace.
func renderAs(t *testing.T, release, namespace, values string) (map[string]*unstructured.Unstructured, error) {
	t.Helper()
	all, err := renderAll(t, release, namespace, values, "--no-hooks")
	objects := map[string]*unstructured.Unstructured{}
	for _, o := range all {
		objects[o.GetKind()+" "+o.GetName()] = o
	}
	return objects, err
}

// rendered is what Helm has rendered so far. Many tests look at the chart without values.
var rendered = map[string]string{}

// renderAll returns the objects in their order, also those of several namespaces with the same name.
// A key that an object has twice is an error: Helm takes the second one, and tools such as kustomize
// refuse the object.
func renderAll(t *testing.T, release, namespace, values string, args ...string) (objects []*unstructured.Unstructured, err error) {
	t.Helper()
	what := fmt.Sprint(release, namespace, values, args)
	out, ok := rendered[what]
	if !ok {
		args = append([]string{"template", release, ".", "--namespace", namespace, "--kube-version", "1.36.0", "--values", file(t, values)}, args...)
		if out, _, err = helm(t, args...); err != nil {
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

// named returns the objects of all namespaces with that name.
func named(t *testing.T, values, name string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := renderAll(t, "purelb", "purelb-system", values)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetName() != name })
}

// install installs the chart as an administrator does, with a namespace of its own.
func install(t *testing.T, server *apitest.Server, args ...string) {
	t.Helper()
	args = append([]string{"install", "purelb", ".", "--namespace", "purelb-system", "--create-namespace", "--kubeconfig", server.Kubeconfig}, args...)
	if _, _, err := helm(t, args...); err != nil {
		t.Fatal(err)
	}
}

func mustRender(t *testing.T, values string) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// file writes values to a file for Helm.
func file(t *testing.T, values string) string {
	t.Helper()
	name := t.TempDir() + "/values.yaml"
	if err := os.WriteFile(name, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestTheObjectsHaveTheNamesThatToolsKnow(t *testing.T) {
	var got []string
	for name, o := range mustRender(t, "") {
		if o.GetLabels()["app"] != "purelb" || o.GetLabels()["app.kubernetes.io/name"] != "purelb" {
			t.Errorf("%s has labels %v", name, o.GetLabels())
		}
		got = append(got, strings.TrimSpace(name+" "+o.GetNamespace()))
	}
	slices.Sort(got)
	want := []string{
		"ClusterRole purelb-viewer",
		"ClusterRole purelb:allocator",
		"ClusterRole purelb:bgpnodestatus-viewer",
		"ClusterRole purelb:k8gobgp",
		"ClusterRole purelb:lbnodeagent",
		"ClusterRoleBinding purelb:allocator",
		"ClusterRoleBinding purelb:k8gobgp",
		"ClusterRoleBinding purelb:lbnodeagent",
		"DaemonSet lbnodeagent purelb-system",
		"Deployment allocator purelb-system",
		"LBNodeAgent default purelb-system",
		"Role purelb-inspector purelb-system",
		"Role purelb-prober purelb-system",
		"Role purelb:allocator:bgp purelb-system",
		"Role purelb:allocator:gossip purelb-system",
		"Role purelb:allocator:leases purelb-system",
		"Role purelb:allocator:netbox purelb-system",
		"Role purelb:k8gobgp purelb-system",
		"Role purelb:lbnodeagent purelb-system",
		"RoleBinding purelb:allocator:bgp purelb-system",
		"RoleBinding purelb:allocator:gossip purelb-system",
		"RoleBinding purelb:allocator:leases purelb-system",
		"RoleBinding purelb:allocator:netbox purelb-system",
		"RoleBinding purelb:k8gobgp purelb-system",
		"RoleBinding purelb:lbnodeagent purelb-system",
		"ServiceAccount allocator purelb-system",
		"ServiceAccount lbnodeagent purelb-system",
		"ServiceAccount purelb-prober purelb-system",
		"ValidatingAdmissionPolicy purelb-agent-bgpnodestatuses",
		"ValidatingAdmissionPolicy purelb-agent-events",
		"ValidatingAdmissionPolicy purelb-agent-leases",
		"ValidatingAdmissionPolicy purelb-agent-services",
		"ValidatingAdmissionPolicy purelb-allocator",
		"ValidatingAdmissionPolicy purelb-allocator-groups",
		"ValidatingAdmissionPolicyBinding purelb-agent-bgpnodestatuses",
		"ValidatingAdmissionPolicyBinding purelb-agent-events",
		"ValidatingAdmissionPolicyBinding purelb-agent-leases",
		"ValidatingAdmissionPolicyBinding purelb-agent-services",
		"ValidatingAdmissionPolicyBinding purelb-allocator",
		"ValidatingAdmissionPolicyBinding purelb-allocator-groups",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestHelmFindsNothingToComplainOf(t *testing.T) {
	if out, _, err := helm(t, "lint", "--strict", "--kube-version", "1.36.0", "."); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
