package main

import (
	"strings"
	"testing"

	"purelb.io/purelb/internal/explain"
)

// PureLB accepts what import makes.
func TestImportedManifestsAreValid(t *testing.T) {
	for file, text := range texts(t, "../../internal/explain/importer/testdata/*.golden") {
		v := explain.Validate(filed(t, text, "-"))
		if v.Fail > 0 {
			t.Errorf("%s: %+v", file, v.Tables())
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
