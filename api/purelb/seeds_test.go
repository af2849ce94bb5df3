package purelb_test

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

// TestEveryDocumentedExampleApplies runs kubectl apply on the examples of all generations of the
// documents, as their readers do.
func TestEveryDocumentedExampleApplies(t *testing.T) {
	const folder = "api/testdata/seeds"
	files, err := os.ReadDir(apitest.File(t, folder))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files in %s, %v", len(files), folder, err)
	}
	for _, f := range files {
		t.Run(f.Name(), func(t *testing.T) {
			path := filepath.Join(folder, f.Name())
			examples := apitest.Objects(t, path)
			for _, o := range examples {
				if o.GetNamespace() != "" {
					apitest.EnsureNamespace(t, o.GetNamespace())
				}
			}
			server := apitest.Shared(t)
			out, err := server.Kubectl("", "apply", "-f", apitest.File(t, path))
			if err != nil || strings.Count(out, " created\n") != len(examples) {
				t.Fatalf("%d examples, %v:\n%s", len(examples), err, out)
			}
			// A second apply of the same file would change nothing.
			out, err = server.Kubectl("", "diff", "-f", apitest.File(t, path))
			if err != nil {
				t.Errorf("the stored objects differ from the file: %v:\n%s", err, out)
			}
			wantInUse(t, examples)
			if out, err := server.Kubectl("", "delete", "--wait=false", "-f", apitest.File(t, path)); err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
		})
	}
}

// wantInUse checks that the stored ServiceGroups and LBNodeAgents of a document have no problems,
// if PureLB is installed in their namespace.
func wantInUse(t *testing.T, examples []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range examples {
		namespace := cmp.Or(o.GetNamespace(), "default")
		var groups v2.ServiceGroupList
		var agents v2.LBNodeAgentList
		for _, list := range []client.ObjectList{&groups, &agents} {
			expect.NoError(t, typed(t).List(context.Background(), list, client.InNamespace(namespace)))
		}
		c := config.For(groups.Items, agents.Items, namespace)
		for _, p := range c.Problems {
			if strings.Contains(p.String(), " is read as ") {
				continue // a range that people read in two ways, which works as its generation read it
			}
			t.Errorf("%s %s/%s: %s", p.Kind, p.Namespace, p.Name, p)
		}
		if o.GetKind() == "ServiceGroup" {
			if _, ok := c.Groups.Group(o.GetName()); !ok {
				t.Errorf("ServiceGroup %s is not in use", o.GetName())
			}
		}
	}
}

// TestCommandsForTheWrongNamespaceWork runs the commands of the message about an object outside of
// PureLB's namespace.
func TestCommandsForTheWrongNamespaceWork(t *testing.T) {
	ctx, c := context.Background(), typed(t)
	from, to := apitest.Namespace(t), apitest.Namespace(t)
	sg := apitest.As[v2.ServiceGroup](t, objectOf(t, "v2", "{remote: {v4pool: POOL}}"))
	agent := apitest.As[v2.LBNodeAgent](t, objectOf(t, "v2", "agent: {local: {localInterface: eth1}}"))
	for _, o := range []client.Object{&sg, &agent} {
		o.SetNamespace(from)
		expect.NoError(t, c.Create(ctx, o))
	}
	problems := config.For([]v2.ServiceGroup{sg}, []v2.LBNodeAgent{agent}, to).Problems
	if len(problems) != 2 {
		t.Fatalf("want two problems: %v", problems)
	}
	for _, p := range problems {
		_, command, _ := strings.Cut(p.Message, `Move it to "`+to+`": `)
		if out, err := apitest.Shared(t).Shell(command); err != nil {
			t.Fatalf("%s\n%v\n%s", command, err, out)
		}
	}
	for _, o := range []client.Object{&sg, &agent} {
		want := o.DeepCopyObject().(client.Object)
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			t.Errorf("%T is still in the old namespace: %v", o, err)
		}
		if err := c.Get(ctx, client.ObjectKey{Namespace: to, Name: want.GetName()}, o); err != nil {
			t.Error(err)
		}
		if diff := gocmp.Diff(want, o, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "Namespace", "UID", "ResourceVersion", "CreationTimestamp", "ManagedFields", "Annotations")); diff != "" {
			t.Errorf("%T changed on the way:\n%s", o, diff)
		}
	}
}

func TestNameOfTheOldestExampleIsInvalid(t *testing.T) {
	example := apitest.Objects(t, "api/testdata/seeds/2020-overview.yaml")[0]
	example.SetName("LocalAddressRange")
	apitest.EnsureNamespace(t, example.GetNamespace())
	text, err := example.MarshalJSON()
	expect.NoError(t, err)
	out, err := apitest.Shared(t).Kubectl(string(text), "apply", "-f", "-")
	if err == nil || !strings.Contains(out, "a lowercase RFC 1123 subdomain") {
		t.Errorf("%v: %s", err, out)
	}
}
