package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

func TestEachDocumentKnowsItsLine(t *testing.T) {
	docs := split("x", []byte("# first\na: 1\n---\n# second\n\na: 1\n---\n\na: 1\n"))
	var got []string
	for _, d := range docs {
		got = append(got, string(d.text)+" at "+string(rune('0'+d.line)))
	}
	want := []string{"# first\na: 1 at 1", "# second\n\na: 1 at 4", "a: 1 at 9"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestADocumentIsNeverLost(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
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

// What PureLB does not read must not look as if it was in order.
func TestObjectsThatPureLBHasNoneOfAreMistakes(t *testing.T) {
	const known = "; it has ServiceGroup and LBNodeAgent of purelb.io/v2 and v1, and BGPConfiguration and BGPNodeStatus of bgp.purelb.io/v1"
	for text, want := range map[string]string{
		"{apiVersion: purelb.io/v2, kind: ServiceGrup, metadata: {name: x}}":  `x:1: PureLB has no objects of apiVersion "purelb.io/v2" and kind "ServiceGrup"` + known,
		"{apiVersion: purelb/v2, kind: ServiceGroup, metadata: {name: x}}":    `x:1: PureLB has no objects of apiVersion "purelb/v2" and kind "ServiceGroup"` + known,
		"{apiVersion: purelb.io/v9, kind: ServiceGroup, metadata: {name: x}}": `x:1: PureLB has no objects of apiVersion "purelb.io/v9" and kind "ServiceGroup"` + known,
		"name: {{ .Values.name }}":                               `x:1: this is not YAML: yaml: invalid map key: map[interface {}]interface {}{".Values.name":interface {}(nil)}; if it is a template, give the output of "helm template" instead`,
		"{metadata: {name: x}}":                                  `x:1: this is no manifest, because apiVersion or kind is missing; leave it out, or give the output of "helm template" or "kubectl kustomize" in place of their sources`,
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}": "",
		"{apiVersion: v1, kind: Service, metadata: {name: x}}":   "",
	} {
		l := newLoader(installNamespace)
		l.read(document{"x", 1, []byte(text)})
		got := ""
		for _, m := range l.w.Mistakes {
			got += m.Place + ": " + m.Message
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func TestTheItemsOfAListHaveItsKind(t *testing.T) {
	l := newLoader(installNamespace)
	l.read(document{"x", 1, []byte("{apiVersion: v1, kind: ServiceList, items: [{metadata: {name: web}, spec: {type: LoadBalancer}}]}")})
	if w := l.world(); len(w.Services) != 1 || len(w.Mistakes) != 0 {
		t.Errorf("got %d Services and %v", len(w.Services), w.Mistakes)
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

// "helm template" also prints what "helm test" makes: a pod and a Service of PureLB.
func TestAHelmTestIsNotInstalled(t *testing.T) {
	const rendered = `apiVersion: v1
kind: Pod
metadata: {name: purelb-test, namespace: default, labels: {app: purelb}, annotations: {helm.sh/hook: test}}
---
apiVersion: v1
kind: Service
metadata: {name: purelb-test, namespace: default, annotations: {helm.sh/hook: test}}
spec: {type: LoadBalancer, loadBalancerClass: purelb.io/purelb}
---
apiVersion: purelb.io/v2
kind: LBNodeAgent
metadata: {name: default, namespace: purelb-system}
spec: {local: {localInterface: default}}
`
	var out bytes.Buffer
	code := run(t.Context(), []string{"validate", "--strict", "-f", "-"}, strings.NewReader(rendered), &out, &out)
	if code != exitFine || !strings.Contains(out.String(), "LBNodeAgent purelb-system/default is in order") || strings.Contains(out.String(), "purelb-test") {
		t.Errorf("exit code %d:\n%s", code, out.String())
	}
}
