package peering_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/peering"
)

// mistake is a wrong BGPConfiguration, and the problems that it has. After a "fatal" problem there is
// no state. A problem with "here" is not in the common status. "without" is a neighbor that is left
// out.
type mistake struct{ name, config, want string }

// reportMistakes fails the test if a mistake is not reported with its field.
func reportMistakes(t *testing.T, tests []mistake) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := decide(t, tt.config)
			if diff := cmp.Diff(trimmed(tt.want), complaints(d)); diff != "" {
				t.Errorf("the result differs (-want +got):\n%s", diff)
			}
			fatal := slices.ContainsFunc(d.Problems, func(p peering.Problem) bool { return p.Fatal })
			if d.OK == fatal {
				t.Errorf("OK is %v, want %v", d.OK, !fatal)
			}
			invariants(t, d)
		})
	}
}

// complaints prints the problems of d and the neighbors that are left out, a line each.
func complaints(d peering.Decision) string {
	var b strings.Builder
	for _, p := range d.Problems {
		fmt.Fprintf(&b, "%s%s%s %s\n", when(p.Fatal, "fatal "), when(p.Here, "here "), p.Reason, p)
	}
	for _, l := range d.LeftOut {
		fmt.Fprintf(&b, "without %s\n", l.Name)
	}
	return b.String()
}
