package apitest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
)

// Namespace makes a namespace on the server of this test binary and returns its name. It does not
// remove the namespace, because no controller would empty it, and the server ends with the tests.
func Namespace(t testing.TB) string {
	t.Helper()
	return create(t, metav1.ObjectMeta{GenerateName: "test-"})
}

// EnsureNamespace makes the namespace of this name on the server of this test binary if it does not
// exist.
func EnsureNamespace(t testing.TB, name string) {
	t.Helper()
	create(t, metav1.ObjectMeta{Name: name})
}

func create(t testing.TB, meta metav1.ObjectMeta) string {
	t.Helper()
	clients, err := kubernetes.NewForConfig(Config(t))
	if err != nil {
		t.Fatalf("apitest: %v", err)
	}
	ns := &corev1.Namespace{ObjectMeta: meta}
	made, err := clients.CoreV1().Namespaces().Create(context.Background(), ns, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return meta.Name
	}
	if err != nil {
		t.Fatalf("apitest: create a namespace: %v", err)
	}
	return made.Name
}

// File returns the path of a file of this repository, such as
// "api/testdata/seeds/assumed.yaml". It works in every folder of the repository.
func File(t testing.TB, name string) string {
	t.Helper()
	crds, err := findCRDs()
	if err != nil {
		t.Fatalf("apitest: %v", err)
	}
	return filepath.Join(crds, "..", "..", "..", filepath.FromSlash(name))
}

// Objects reads the objects of a YAML file of this repository, in their order.
func Objects(t testing.TB, name string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := Parse([]byte(Text(t, name)))
	if err != nil {
		t.Fatalf("apitest: %s: %v", name, err)
	}
	return objects
}

// Parse reads the objects of a YAML text, in their order.
func Parse(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var document runtime.RawExtension
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal(document.Raw, &o.Object); err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// Kubectl runs kubectl against the server and returns its output. input, if any, is its
// standard input.
func (s *Server) Kubectl(input string, args ...string) (string, error) {
	return s.run(input, filepath.Join(s.dir, "bin", "kubectl"), args...)
}

// Shell runs a command line in which kubectl talks to the server, and returns its output.
func (s *Server) Shell(line string) (string, error) {
	return s.run("", "sh", "-e", "-c", line)
}

func (s *Server) run(input, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+s.Kubeconfig,
		"PATH="+filepath.Join(s.dir, "bin")+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}
