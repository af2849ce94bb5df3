package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/explain"
)

// plan is what validate --against-cluster says of the recorded cluster with manifests.
func plan(t *testing.T, manifests string) string {
	t.Helper()
	o := &options{in: strings.NewReader(manifests)}
	newRoot(o)
	o.files = []string{"-"}
	files, err := o.readFiles()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := printTables(&text, explain.Against(recorded(t), files).Tables()); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestWhatFilesWouldChange(t *testing.T) {
	for _, tt := range []struct{ name, files, want string }{
		{"a larger range", `{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: default, namespace: purelb-system},
  spec: {local: {v4pools: [{subnet: 192.168.10.0/24, pool: 192.168.10.200-192.168.10.205, exclude: [192.168.10.202]}]}}}`,
			`PASS  stdin:1: ServiceGroup purelb-system/default is in order [Accepted]
CHANGE  Service default/late would get 192.168.10.205
8 Services would not change
Result: 0 FAIL, 0 WARN, 1 PASS
`},
		{"a range that the cluster has already", `{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: new, namespace: purelb-system},
  spec: {remote: {v4pools: [{subnet: 203.0.113.0/24, pool: 203.0.113.64/26}]}}}`,
			`FAIL  stdin:2: ServiceGroup purelb-system/new: spec.remote.v4pools[0].pool: Pool overlaps with already defined pool "far". Overlapping ranges: 203.0.113.64/26 here and 203.0.113.0/24 there; change one of them so that each address is in one range only [Overlaps]
9 Services would not change
Result: 1 FAIL, 0 WARN, 0 PASS
`},
		{"Services that take what others wait for, and that get nothing", `{apiVersion: v1, kind: Service, metadata: {name: extra, namespace: default}, spec: {type: LoadBalancer, ipFamilies: [IPv4], ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: typo, namespace: default, annotations: {purelb.io/service-group: far}}, spec: {type: LoadBalancer, ports: [{port: 80}]}}`,
			`FAIL  stdin:1: Service default/extra: pool "default" exhausted: no available addresses for default/extra (IPv4) [Exhausted]
CHANGE  stdin:3: Service default/typo would get 203.0.113.1
CHANGE  stdin:1: Service default/extra would wait: pool "default" exhausted: no available addresses for default/extra (IPv4) [Exhausted]
8 Services would not change
Result: 1 FAIL, 0 WARN, 0 PASS
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, plan(t, tt.files)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// An address that a Service has stays, whatever the files say of its group.
func TestFilesTakeNoAddressAway(t *testing.T) {
	got := plan(t, `{apiVersion: purelb.io/v2, kind: ServiceGroup, metadata: {name: default, namespace: purelb-system},
  spec: {local: {v4pools: [{subnet: 192.168.10.0/24, pool: 192.168.10.230-192.168.10.239}]}}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default, annotations: {purelb.io/service-group: far}}, spec: {type: LoadBalancer, ports: [{port: 81}]}}`)
	if strings.Contains(got, "Service default/web would have") || strings.Contains(got, "Service default/mail would") {
		t.Errorf("an address moves:\n%s", got)
	}
}

func TestTheClusterIsAskedWhatFilesWouldChange(t *testing.T) {
	f := newFakeServer(t)
	f.purelb(t)
	out, errs, code := f.ask(t, "validate", "--against-cluster", "-f", "testdata/manifests/more")
	if code != exitProblems || !strings.Contains(out, "CHANGE  testdata/manifests/more/services.yml:9: Service default/b would get 192.168.10.201") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
	if _, errs, code := f.ask(t, "validate", "--against-cluster"); code != exitFailed || !strings.Contains(errs, "name them with -f") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
