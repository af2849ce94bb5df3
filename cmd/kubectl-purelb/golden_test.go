package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the answers into testdata/golden")

// The answers of every command to recorded worlds. The first line of a golden file is
// the command line, and the last one the code to exit with.
func TestGolden(t *testing.T) {
	for _, tt := range []struct{ name, args string }{
		{"validate-files", "validate -f testdata/manifests"},
		{"validate-files-json", "validate -f testdata/manifests/more -o json"},
		{"validate-broken", "validate -f testdata/broken.yaml"},
		{"validate-schema", "validate -f testdata/schema.yaml"},
		{"validate-folder", "validate -f testdata/folder"},
		{"validate-named", "validate -f testdata/folder/values.yaml"},
		{"validate-cluster", "validate -f testdata/cluster.yaml"},
		{"pools", "pools -f testdata/cluster.yaml"},
		{"pools-one", "pools -f testdata/cluster.yaml --service-group far --show-services -o yaml"},
		{"services", "services -f testdata/cluster.yaml"},
		{"services-problems", "services -f testdata/cluster.yaml --problems"},
		{"services-node", "services -f testdata/cluster.yaml --node n1 -o json"},
		{"services-unknown-node", "services -f testdata/cluster.yaml --node nowhere"},
		{"services-unknown-pool", "services -f testdata/cluster.yaml --pool fra"},
		{"election", "election -f testdata/cluster.yaml --check"},
		{"election-drain", "election -f testdata/cluster.yaml --simulate-drain n1"},
		{"election-unknown-node", "election -f testdata/cluster.yaml --node nowhere"},
		{"status", "status -f testdata/cluster.yaml"},
		{"explain-service-web", "explain service default/web -f testdata/cluster.yaml"},
		{"explain-service-wide", "explain svc/web -o wide -f testdata/cluster.yaml"},
		{"explain-service-mail", "explain service default/mail -f testdata/cluster.yaml"},
		{"explain-service-api", "explain service default/api -f testdata/cluster.yaml"},
		{"explain-service-fresh", "explain service default/fresh -f testdata/cluster.yaml"},
		{"explain-service-late", "explain service default/late -f testdata/cluster.yaml"},
		{"explain-service-typo", "explain service default/typo -f testdata/cluster.yaml -o json"},
		{"explain-service-till", "explain service shop/till -f testdata/cluster.yaml"},
		{"explain-service-gone", "explain service default/gone -f testdata/cluster.yaml"},
		{"explain-service-cloud", "explain service default/cloud -f testdata/cluster.yaml"},
		{"explain-service-none", "explain service default/none -f testdata/cluster.yaml"},
		{"explain-ip", "explain ip 192.168.10.200 -f testdata/cluster.yaml"},
		{"explain-ip-quarantined", "explain ip 192.168.10.203 -f testdata/cluster.yaml"},
		{"explain-ip-excluded", "explain ip 192.168.10.202 -f testdata/cluster.yaml"},
		{"explain-ip-node", "explain ip 192.168.10.11 -f testdata/cluster.yaml"},
		{"explain-ip-free", "explain ip 203.0.113.9 -f testdata/cluster.yaml"},
		{"explain-ip-foreign", "explain ip 192.0.2.50 -f testdata/cluster.yaml"},
		{"validate-external", "validate -f testdata/external.yaml"},
		{"explain-service-external", "explain service default/asks -f testdata/external.yaml"},
		{"explain-ip-external", "explain ip 192.0.2.1 -f testdata/external.yaml"},
		{"explain-ip-external-held", "explain ip 192.0.2.2 -f testdata/external.yaml"},
		{"explain-group", "explain group shop -f testdata/cluster.yaml"},
		{"explain-group-refused", "explain group twice -f testdata/cluster.yaml"},
		{"explain-group-lost", "explain group lost -f testdata/cluster.yaml"},
		{"explain-node", "explain node n1 -f testdata/cluster.yaml"},
		{"explain-node-off", "explain node n3 -f testdata/cluster.yaml"},
		{"explain-node-bgp", "explain node n2 -f testdata/cluster.yaml"},
		{"bgp-sessions", "bgp sessions -f testdata/cluster.yaml --check"},
		{"bgp-sessions-json", "bgp sessions -f testdata/cluster.yaml --node n1 -o json"},
		{"bgp-sessions-node", "bgp sessions -f testdata/cluster.yaml --node n3"},
		{"bgp-dataplane", "bgp dataplane -f testdata/cluster.yaml --check"},
		{"bgp-dataplane-import", "bgp dataplane -f testdata/cluster.yaml --import-only --node n1 -o json"},
		{"bgp-dataplane-export", "bgp dataplane -f testdata/cluster.yaml --export-only"},
		{"bgp-dataplane-nothing", "bgp dataplane -f testdata/cluster.yaml --export-only --import-only"},
		{"inspect-web", "inspect default/web -f testdata/cluster.yaml"},
		{"inspect-api", "inspect default/api -f testdata/cluster.yaml -o json"},
		{"adopt", "adopt -A --dry-run -f testdata/moves.yaml"},
		{"adopt-from", "adopt -A --from servicelb --dry-run -f testdata/moves.yaml"},
		{"adopt-outside", "adopt default/outside --dry-run -f testdata/moves.yaml -o json"},
		{"adopt-class", "adopt default/other --dry-run -f testdata/moves.yaml"},
		{"adopt-gone", "adopt default/gone --dry-run -f testdata/moves.yaml"},
		{"move", "move default/moved n1 --dry-run -f testdata/moves.yaml"},
		{"rebalance", "rebalance --dry-run -f testdata/moves.yaml"},
		{"leave", "leave -A --dry-run -f testdata/moves.yaml"},
		{"version", "version -f testdata/cluster.yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), strings.Fields(tt.args), strings.NewReader(""), &out, &errs)
			got := fmt.Sprintf("$ kubectl purelb %s\n%s%sexit code %d\n", tt.args, out.String(), errs.String(), code)
			golden(t, filepath.Join("testdata", "golden", tt.name+".txt"), got)
		})
	}
}

// offline runs a command that needs no cluster. It returns the answer with what is said beside it.
func offline(t *testing.T, input string, args ...string) (out string, code int) {
	t.Helper()
	var text bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(input), &text, &text)
	return text.String(), code
}

// golden compares got with the text at path, or writes it there.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
