package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purelb.io/purelb/internal/explain"
)

const importData = "../../internal/explain/importer/testdata/"

// PureLB accepts what import makes.
func TestImportedManifestsAreValid(t *testing.T) {
	files, err := filepath.Glob(importData + "*.golden")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no golden files", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		v := explain.Validate(filed(t, string(text), "-"))
		if v.Fail > 0 {
			t.Errorf("%s: %+v", file, v.Tables())
		}
	}
}

func TestImportReadsFiles(t *testing.T) {
	for _, c := range []struct {
		input string
		args  []string
		want  string
		code  int
	}{
		{args: []string{"-f", importData + "layer2.yaml", "--subnet", "192.168.1.0/24"}, want: translated(t, "layer2")},
		{args: []string{"-f", importData + "layer2.yaml", "--subnet", "192.168.1.0"}, code: exitFailed, want: `--subnet must be a network such as 192.168.1.0/24, and "192.168.1.0" is none`},
		{input: "apiVersion: v1\nkind: ConfigMap\n", code: exitFailed, want: "there is no pool and no router of MetalLB"},
		{input: "\napiVersion: metallb.io/v1beta1\nkind: AddressPool\nmetadata: {name: old}\n", code: exitFailed, want: "stdin:2: AddressPool old is of MetalLB 0.12"},
		{input: "apiVersion: v1\nkind: List\nitems: [{apiVersion: metallb.io/v1beta2, kind: BGPPeer, metadata: {name: tor}, spec: {myASN: 1, peerASN: 2, peerAddress: 192.0.2.1}}]\n", want: "neighborAddress: 192.0.2.1"},
		{input: "a: b: c\n", code: exitFailed, want: "stdin:1: "},
	} {
		args := append([]string{"import", "metallb"}, c.args...)
		if c.args == nil {
			args = append(args, "-f", "-")
		}
		var out, errs bytes.Buffer
		code := run(t.Context(), args, strings.NewReader(c.input), &out, &errs)
		if said := out.String() + errs.String(); code != c.code || !strings.Contains(said, c.want) {
			t.Errorf("%q: exit code %d, want %d:\n%s\nwant %s", c.input, code, c.code, said, c.want)
		}
	}
}

func TestImportReadsTheCluster(t *testing.T) {
	f := newFakeServer(t)
	f.has(t, wellWorld(t))
	for product, name := range map[string]string{"metallb": "MetalLB", "cilium": "Cilium", "kube-vip": "kube-vip"} {
		if out, errs, code := f.ask(t, "import", product); code != exitFailed || !strings.Contains(errs, "there is no pool and no router of "+name) {
			t.Errorf("without %s, the exit code is %d:\n%s%s", name, code, out, errs)
		}
	}
	f.objects["/api/v1/namespaces/kube-system/configmaps"] = []map[string]any{
		{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"name": "kubevip", "namespace": "kube-system"}, "data": map[string]any{"cidr-global": "192.168.10.240/28"}},
	}
	if out, errs, code := f.ask(t, "import", "kube-vip"); code != exitFine || !strings.Contains(out, "pool: 192.168.10.240-192.168.10.255\n      subnet: 192.168.10.0/24") {
		t.Errorf("of kube-vip, exit code %d:\n%s%s", code, out, errs)
	}
}

func translated(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(importData + name + ".golden")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
