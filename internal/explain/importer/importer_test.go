package importer_test

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"purelb.io/purelb/internal/explain/importer"
)

var update = flag.Bool("update", false, "write the golden files")

// A file of testdata has objects of MetalLB and Services. A line "# networks:" has the networks of the nodes.
func TestMetalLBIsTranslated(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("there is no test data", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			m := read(t, file)
			got, err := m.Translate("purelb-system").Manifest("MetalLB", "metallb")
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("the manifest is\n%s\nwant that of %s", got, golden)
			}
		})
	}
}

func read(t *testing.T, file string) *importer.MetalLB {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := &importer.MetalLB{}
	for line := range strings.Lines(string(text)) {
		if networks, is := strings.CutPrefix(line, "# networks:"); is {
			for _, n := range strings.Fields(networks) {
				m.Networks = append(m.Networks, netip.MustParsePrefix(n))
			}
		}
	}
	for _, doc := range strings.Split(string(text), "\n---\n") {
		object, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		ours, err := m.Read(object)
		if err != nil {
			t.Fatal(err)
		}
		var svc corev1.Service
		if err := yaml.Unmarshal(object, &svc); !ours && err == nil && svc.Kind == "Service" {
			m.Services = append(m.Services, svc)
		}
	}
	return m
}

func TestObjectsThatCannotBeTranslatedAreErrors(t *testing.T) {
	for _, c := range []struct{ object, want string }{
		{`{"apiVersion": "metallb.io/v1beta1", "kind": "AddressPool", "metadata": {"name": "old"}}`, "AddressPool old is of MetalLB 0.12: upgrade MetalLB first"},
		{`{"apiVersion": "metallb.io/v1beta1", "kind": "BGPPeer", "metadata": {"name": "old"}}`, "BGPPeer old has the version v1beta1, which MetalLB converts to v1beta2: get it from the cluster"},
		{`{"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": {"name": "p"}, "spec": {"addresses": "10.0.0.0/8"}}`, "IPAddressPool p: "},
		{`[]`, "json: "},
	} {
		if _, err := (&importer.MetalLB{}).Read([]byte(c.object)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %s", c.object, err, c.want)
		}
	}
}

// MetalLB looks at pools with a serviceAllocation first.
func TestPoolsForSomeServicesComeFirst(t *testing.T) {
	m := &importer.MetalLB{}
	for _, p := range []struct{ name, more string }{
		{"a-all", ""}, {"b-shop", `, "serviceAllocation": {"namespaces": ["shop"]}`}, {"c-first", `, "serviceAllocation": {"priority": 900000, "namespaces": ["shop"]}`},
	} {
		if _, err := m.Read([]byte(`{"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": {"name": "` + p.name + `"}, "spec": {"addresses": ["10.0.0.0/24"]` + p.more + `}}`)); err != nil {
			t.Fatal(err)
		}
	}
	g := m.Translate("purelb-system").Groups
	if all, shop, first := *g[0].Spec.Priority, *g[1].Spec.Priority, *g[2].Spec.Priority; all >= shop || shop >= first {
		t.Errorf("the priorities are %d, %d, %d", all, shop, first)
	}
}
