// Package purelb_test proves the rules of the custom resource definitions on a real API server: the
// defaults, both versions of each object, and the refusals with their messages.
package purelb_test

import (
	"context"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"purelb.io/purelb/internal/testing/apitest"
)

func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }

// object reads one object from YAML.
func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	objects, err := apitest.Parse([]byte(text))
	if err != nil || len(objects) != 1 {
		t.Fatalf("%d objects, %v in:\n%s", len(objects), err, text)
	}
	return objects[0]
}

// group returns a ServiceGroup of that version with that spec, in YAML's flow style.
func group(t *testing.T, version, spec string) *unstructured.Unstructured {
	t.Helper()
	return object(t, "apiVersion: purelb.io/"+version+"\nkind: ServiceGroup\nmetadata: {name: example}\nspec: "+spec)
}

// agent returns an LBNodeAgent in the same way.
func agent(t *testing.T, version, spec string) *unstructured.Unstructured {
	t.Helper()
	return object(t, "apiVersion: purelb.io/"+version+"\nkind: LBNodeAgent\nmetadata: {name: example}\nspec: "+spec)
}

var resources = map[string]string{"ServiceGroup": "servicegroups", "LBNodeAgent": "lbnodeagents", "Service": "services"}

// objects returns the client for objects of o's kind in namespace, through a version.
func objects(t *testing.T, o *unstructured.Unstructured, version, namespace string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(apitest.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	gvr := schema.GroupVersionResource{Group: "purelb.io", Version: version, Resource: resources[o.GetKind()]}
	return client.Resource(gvr).Namespace(namespace)
}

// create creates o, through its own version, in a namespace of its own.
func create(t *testing.T, o *unstructured.Unstructured) (namespace string) {
	t.Helper()
	namespace = apitest.Namespace(t)
	version := o.GroupVersionKind().Version
	_, err := objects(t, o, version, namespace).Create(context.Background(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return namespace
}

// get reads the stored o through a version.
func get(t *testing.T, o *unstructured.Unstructured, version, namespace string) *unstructured.Unstructured {
	t.Helper()
	got, err := objects(t, o, version, namespace).Get(context.Background(), o.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// wantSpec compares the spec of o with a spec in YAML.
func wantSpec(t *testing.T, o *unstructured.Unstructured, spec string) {
	t.Helper()
	want := object(t, spec)
	if diff := cmp.Diff(want.Object, o.Object["spec"]); diff != "" {
		t.Errorf("spec by way of %s (-want +got):\n%s", o.GetAPIVersion(), diff)
	}
}
