package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// The API server fills in defaults by the definition of the version. Files have not
// been there, so the loader fills them in: all that there are, and no others.
func TestDefaultsAreThoseOfTheDefinition(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "charts", "purelb", "crds", "purelb.io_servicegroups.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string         `json:"name"`
				Schema map[string]any `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	for _, version := range crd.Spec.Versions {
		want := map[string]any{}
		defaultsOf(version.Schema["openAPIV3Schema"].(map[string]any), "", want)
		doc := `{"apiVersion":"purelb.io/` + version.Name + `","kind":"ServiceGroup","spec":{"local":{},"remote":{},"netbox":{},"external":{}}}`
		filled, err := withDefaults("purelb.io/"+version.Name, []byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		var o map[string]any
		if err := yaml.Unmarshal(filled, &o); err != nil {
			t.Fatal(err)
		}
		got := map[string]any{}
		leaves(o["spec"].(map[string]any), ".spec", got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version.Name, diff)
		}
	}
}

// defaultsOf collects the defaults of a schema, by path.
func defaultsOf(schema map[string]any, path string, found map[string]any) {
	if value, ok := schema["default"]; ok {
		found[path] = value
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, one := range properties {
		defaultsOf(one.(map[string]any), path+"."+name, found)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		defaultsOf(items, path+"[]", found)
	}
}

func leaves(o map[string]any, path string, found map[string]any) {
	for name, value := range o {
		if inner, ok := value.(map[string]any); ok {
			leaves(inner, path+"."+name, found)
			continue
		}
		found[path+"."+name] = value
	}
}

// Each document knows its line.
func TestADocumentIsNeverLost(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"with comments and empty lines", "# first\na: 1\n---\n# second\n\na: 1\n---\n\na: 1\n", []string{"# first\na: 1 at 1", "# second\n\na: 1 at 4", "a: 1 at 9"}},
		{"behind the separator", "a: 1\n--- {b: 1}\n---\nc: 1\n", []string{"a: 1 at 1", "{b: 1} at 2", "c: 1 at 4"}},
		{"beside a comment", "a: 1\n--- # Source: x\nb: 1\n", []string{"a: 1 at 1", "# Source: x\nb: 1 at 2"}},
		{"with the ends of lines of Windows", "a: 1\r\n---\r\nb: 1\r\n", []string{"a: 1 at 1", "b: 1 at 3"}},
		{"with a line of dashes", "a: 1\n-----\n---\nb: 1\n", []string{"a: 1\n----- at 1", "b: 1 at 4"}},
		{"without an end of line", "---\na: 1", []string{"a: 1 at 2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, d := range split("x", []byte(tt.text)) {
				got = append(got, fmt.Sprintf("%s at %d", d.text, d.line))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A v1 group is announced by rule of the subnets where it says nothing, a v2 group only
// where a node has the subnet.
func TestVersionsDifferInTheirDefault(t *testing.T) {
	l := newLoader(installNamespace)
	for _, version := range []string{"v1", "v2"} {
		l.read(document{"x", 1, []byte("{apiVersion: purelb.io/" + version + ", kind: ServiceGroup, metadata: {name: " + version + "}, spec: {local: {}}}")})
	}
	w := l.world()
	if got := w.Groups[0].Spec.Local.Announce; got != v2.AnnounceAuto {
		t.Errorf("v1 is %s", got)
	}
	if got := w.Groups[1].Spec.Local.Announce; got != v2.AnnounceLocal {
		t.Errorf("v2 is %s", got)
	}
}
