package ipam_test

import (
	"slices"
	"testing"
)

// TestExternalIPsInAGroupAreNamed: no node announces an address of spec.externalIPs, unless PureLB
// gave it to the Service too.
func TestExternalIPsInAGroupAreNamed(t *testing.T) {
	const warning = `10.1.2.2 in spec.externalIPs is an address of ServiceGroup "racks", and no node announces it for this Service; ` +
		`use the annotation purelb.io/addresses instead`
	for _, tt := range []struct {
		name            string
		asked, external []string
		want            []string
	}{
		{name: "one in a group", external: []string{"10.1.2.2", "203.0.113.9"}, want: []string{warning}},
		{name: "one that the Service gets", asked: []string{"10.1.2.2"}, external: []string{"10.1.2.2"}},
	} {
		c, r := cluster(t), web("4", of("racks"))
		everywhere(racks(t))(&c)
		r.Asked, r.External = addrs(tt.asked...), addrs(tt.external...)
		if got := c.Choose(r).Result.Warnings; !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
