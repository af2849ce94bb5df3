// Package purelb_test proves the rules of the custom resource definitions on a real API server: the
// defaults, both versions of each object, and the refusals with their messages.
package purelb_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "purelb.io/purelb/api/purelb/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }

// shared is the client of all tests: a new client first asks the API server what it knows.
var shared client.Client

// typed returns a client for unstructured objects, and for the Go types of both versions.
func typed(t *testing.T) client.Client {
	t.Helper()
	if shared == nil {
		shared = apitest.Client(t, v1.AddToScheme, v2.AddToScheme)
	}
	return shared
}

// objectOf returns an object of that version with that spec, in YAML's flow style. It is a
// ServiceGroup, or after "agent: " an LBNodeAgent. POOL and POOL6 stand for valid ranges.
func objectOf(t *testing.T, version, spec string) *unstructured.Unstructured {
	t.Helper()
	kind := "ServiceGroup"
	if of, ok := strings.CutPrefix(spec, "agent: "); ok {
		kind, spec = "LBNodeAgent", of
	}
	spec = strings.NewReplacer(
		"POOL6", "{pool: '2001:db8::/120', subnet: '2001:db8::/64'}", "POOL", "{pool: 192.0.2.0/24, subnet: 192.0.2.0/24}",
	).Replace(spec)
	return apitest.Object(t, "apiVersion: purelb.io/"+version+"\nkind: "+kind+"\nmetadata: {name: example, namespace: default}\nspec: "+spec)
}

// create creates o in a namespace of its own.
func create(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	o.SetNamespace(apitest.Namespace(t))
	expect.NoError(t, typed(t).Create(context.Background(), o))
}

// get reads the stored o through a version.
func get(t *testing.T, o *unstructured.Unstructured, version string) *unstructured.Unstructured {
	t.Helper()
	got := &unstructured.Unstructured{}
	got.SetAPIVersion("purelb.io/" + version)
	got.SetKind(o.GetKind())
	expect.NoError(t, typed(t).Get(context.Background(), client.ObjectKeyFromObject(o), got))
	return got
}

// wantSpec compares the spec of the stored o, through a version, with that of another object.
func wantSpec(t *testing.T, o *unstructured.Unstructured, version string, want *unstructured.Unstructured) {
	t.Helper()
	if diff := cmp.Diff(want.Object["spec"], get(t, o, version).Object["spec"]); diff != "" {
		t.Errorf("spec by way of %s (-want +got):\n%s", version, diff)
	}
}
