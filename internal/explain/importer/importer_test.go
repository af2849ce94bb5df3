package importer_test

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"purelb.io/purelb/internal/explain/importer"
	"purelb.io/purelb/internal/testing/expect"
)

var update = flag.Bool("update", false, "write the golden files")

// A file of testdata has objects and Services. A line "# networks:" has the networks of the nodes. The name of a
// file that is not about MetalLB begins with that of the product.
func TestConfigurationsAreTranslated(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("there is no test data", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			m := read(t, file)
			name, product := "MetalLB", "metallb"
			for key, other := range map[string]string{"cilium": "Cilium", "kube-vip": "kube-vip"} {
				if strings.HasPrefix(filepath.Base(file), key) {
					name, product = other, key
				}
			}
			got, err := m.Translate(product, "purelb-system").Manifest(name, product)
			expect.NoError(t, err)
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *update {
				expect.NoError(t, os.WriteFile(golden, got, 0o644))
			}
			want, err := os.ReadFile(golden)
			expect.NoError(t, err)
			if string(got) != string(want) {
				t.Errorf("the manifest is\n%s\nwant that of %s", got, golden)
			}
		})
	}
}

func read(t *testing.T, file string) *importer.Source {
	t.Helper()
	text, err := os.ReadFile(file)
	expect.NoError(t, err)
	m := &importer.Source{}
	for line := range strings.Lines(string(text)) {
		if networks, is := strings.CutPrefix(line, "# networks:"); is {
			for _, n := range strings.Fields(networks) {
				m.Networks = append(m.Networks, netip.MustParsePrefix(n))
			}
		}
	}
	for _, doc := range strings.Split(string(text), "\n---\n") {
		object, err := yaml.YAMLToJSON([]byte(doc))
		expect.NoError(t, err)
		expect.NoError(t, m.Read(object))
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
		if err := (&importer.Source{}).Read([]byte(c.object)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want %s", c.object, err, c.want)
		}
	}
}

// MetalLB looks at pools with a serviceAllocation first.
func TestPoolsForSomeServicesComeFirst(t *testing.T) {
	m := &importer.Source{}
	for _, p := range []struct{ name, more string }{
		{"a-all", ""}, {"b-shop", `, "serviceAllocation": {"namespaces": ["shop"]}`}, {"c-first", `, "serviceAllocation": {"priority": 900000, "namespaces": ["shop"]}`},
	} {
		expect.NoError(t, m.Read([]byte(`{"apiVersion": "metallb.io/v1beta1", "kind": "IPAddressPool", "metadata": {"name": "`+p.name+`"}, "spec": {"addresses": ["10.0.0.0/24"]`+p.more+`}}`)))
	}
	g := m.Translate("metallb", "purelb-system").Groups
	if all, shop, first := *g[0].Spec.Priority, *g[1].Spec.Priority, *g[2].Spec.Priority; all >= shop || shop >= first {
		t.Errorf("the priorities are %d, %d, %d", all, shop, first)
	}
}

// The API server refuses an object beyond the limits of the definitions.
func TestAnImportStaysWithinTheLimits(t *testing.T) {
	m := &importer.Source{}
	add := func(kind, version, name, spec string) {
		expect.NoError(t, m.Read([]byte(`{"apiVersion": "metallb.io/`+version+`", "kind": "`+kind+`", "metadata": {"name": "`+name+`"}, "spec": `+spec+`}`)))
	}
	add("IPAddressPool", "v1beta1", "pool", `{"addresses": ["10.0.0.0/24"]}`)
	add("BFDProfile", "v1beta1", "fast", `{"receiveInterval": 10, "transmitInterval": 100}`)
	for _, rack := range []string{"a", "b"} {
		add("BGPPeer", "v1beta2", "rack-"+rack, `{"myASN": 64512, "peerASN": 64513, "peerAddress": "10.1.0.1", "bfdProfile": "fast", "nodeSelectors": [{"matchLabels": {"rack": "`+rack+`"}}]}`)
	}
	for i := range 20 {
		add("BGPAdvertisement", "v1beta1", fmt.Sprint("a", i), fmt.Sprintf(`{"peers": ["rack-a", "rack-b"], "localPref": %d}`, 100+i))
		add("BGPAdvertisement", "v1beta1", fmt.Sprint("again", i), fmt.Sprintf(`{"peers": ["rack-a", "rack-b"], "localPref": %d}`, 100+i))
	}
	r := m.Translate("metallb", "purelb-system")
	all := r.Groups[0].Spec.BGP.Advertisements
	if len(all) != 16 || len(all[0].Peers) != 1 {
		t.Errorf("%d advertisements, the first to %v", len(all), all[0].Peers)
	}
	if bfd := r.BGP.Spec.Neighbors[0].BFD; bfd.MinReceiveIntervalMilliseconds != 50 || bfd.MinTransmitIntervalMilliseconds != 100 {
		t.Errorf("BFD is %+v", bfd)
	}
	for _, want := range []string{"has 20 different BGPAdvertisements, and a group has 16 at most: the others are left out", "has an interval of 10 ms, and PureLB's shortest is 50 ms"} {
		if !slices.ContainsFunc(r.Remarks, func(m string) bool { return strings.HasSuffix(m, " "+want) }) {
			t.Errorf("no remark %q in %v", want, r.Remarks)
		}
	}
}
