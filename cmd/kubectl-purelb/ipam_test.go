package main

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/internal/allocate/allocstate"
)

func TestOrphansAreReleasedOnlyWhenConfirmed(t *testing.T) {
	f := stage{world: recorded(t), allocator: &allocstate.State{Complete: true, Backends: []allocstate.Backend{
		{Group: "public", Orphans: 2, Digest: "0123abcd", Listed: []allocstate.Orphan{{Address: netip.MustParseAddr("192.0.2.9"), Key: "prod/default/web/public/v4"}}},
		{Group: "team/box"},
	}}}.server(t)
	tests := []struct{ args, want, patch string }{
		{"public", "192.0.2.9    prod/default/web/public/v4\nand 1 more\nIf no other cluster uses these addresses, add --confirm", ""},
		{"public --confirm", "The allocator releases these addresses now.",
			`/apis/purelb.io/v2/namespaces/purelb-system/servicegroups/public {"metadata":{"annotations":{"purelb.io/release-orphans":"0123abcd"}}}`},
		{"team/box --confirm", "NetBox holds no address for this cluster without a Service.", ""},
		{"default", `ServiceGroup "default" has no addresses of NetBox`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			f.patches = nil
			out, errs, _ := f.ask(t, append([]string{"ipam", "release-orphans"}, strings.Fields(tt.args)...)...)
			if !strings.Contains(out+errs, tt.want) {
				t.Errorf("it says\n%s%s, want %s", out, errs, tt.want)
			}
			if want := strings.Split(tt.patch, "\n"); tt.patch == "" && len(f.patches) > 0 || tt.patch != "" && !slices.Equal(f.patches, want) {
				t.Errorf("patches %q, want %q", f.patches, tt.patch)
			}
		})
	}
}
