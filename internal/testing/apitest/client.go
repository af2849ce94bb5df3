package apitest

import (
	"context"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client returns a client of the server of this test binary, for unstructured objects and for the
// types that add registers.
func Client(t testing.TB, add ...func(*runtime.Scheme) error) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, register := range add {
		if err := register(scheme); err != nil {
			t.Fatalf("apitest: %v", err)
		}
	}
	c, err := client.New(Config(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatalf("apitest: %v", err)
	}
	return c
}

// Report creates o, and then writes the status that set gives it.
func Report(t testing.TB, c client.Client, o client.Object, set func()) {
	t.Helper()
	if err := c.Create(context.Background(), o); err != nil {
		t.Fatalf("apitest: create %s: %v", o.GetName(), err)
	}
	set()
	if err := c.Status().Update(context.Background(), o); err != nil {
		t.Fatalf("apitest: write the status of %s: %v", o.GetName(), err)
	}
}

// Object reads the only object of a YAML text.
func Object(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	objects, err := Parse([]byte(text))
	if err != nil || len(objects) != 1 {
		t.Fatalf("apitest: %d objects, %v in:\n%s", len(objects), err, text)
	}
	return objects[0]
}

// As reads o into its own type. A field that the type does not have is an error.
func As[T any](t testing.TB, o *unstructured.Unstructured) (typed T) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &typed, true); err != nil {
		t.Fatalf("apitest: %s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return typed
}

// Text returns the text of a file of this repository, such as "docs/operations.md".
func Text(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(File(t, name))
	if err != nil {
		t.Fatalf("apitest: %v", err)
	}
	return string(text)
}
