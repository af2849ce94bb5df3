package allocate_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"purelb.io/purelb/internal/testing/apitest"
)

// badGroup is a ServiceGroup with a mistake, and the expected message: after "refused: " the
// message of the API server, otherwise that of the condition Accepted.
type badGroup struct {
	name string
	// group is the name, with a namespace if it is not PureLB's. spec is YAML. want writes
	// purelb-system for PureLB's namespace.
	group, version, spec, want string
}

// badGroups returns the groups of testdata/bad_groups.txt. All of them exist at the same time.
func badGroups(t testing.TB) []badGroup {
	var all []badGroup
	for _, lines := range rowsOf(t, "bad_groups.txt") {
		text, old := strings.CutPrefix(lines[1], "v1 ")
		name, spec, _ := strings.Cut(text, " ")
		row := badGroup{name: lines[0], group: name, version: "v2", spec: spec, want: lines[2]}
		if old {
			row.version = "v1"
		}
		all = append(all, row)
	}
	return all
}

// rowsOf reads a file of testdata. A row begins with "# " and its name, and ends with "-> " and what
// is expected.
func rowsOf(t testing.TB, file string) (rows [][]string) {
	t.Helper()
	for text := range strings.SplitSeq(strings.TrimSpace(apitest.Text(t, "internal/allocate/testdata/"+file)), "\n\n") {
		lines := strings.Split(text, "\n")
		name, named := strings.CutPrefix(lines[0], "# ")
		want, ends := strings.CutPrefix(lines[len(lines)-1], "-> ")
		if !named || !ends || len(lines) < 3 {
			t.Fatalf("%s: not a row:\n%s", file, text)
		}
		lines[0], lines[len(lines)-1] = name, want
		rows = append(rows, lines)
	}
	return rows
}

func (b badGroup) object(w *world) *unstructured.Unstructured {
	o := apitest.Object(w, fmt.Sprintf("{apiVersion: purelb.io/%s, kind: ServiceGroup, spec: %s}", b.version, b.spec))
	namespace, name, elsewhere := strings.Cut(b.group, "/")
	if !elsewhere {
		namespace, name = w.namespace, b.group
	}
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
