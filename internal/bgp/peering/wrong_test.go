package peering_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/bgp/peering"
)

// example is a BGPConfiguration and the lines that it must bring about.
type example struct{ name, config, want string }

// examples reads a file of testdata. An example begins with "# name". The lines with "->" are what is
// wanted.
func examples(t *testing.T, name string) []example {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []example
	for part := range strings.SplitSeq(string(text), "\n\n") {
		var e example
		for line := range strings.Lines(part) {
			if name, is := strings.CutPrefix(line, "# "); is {
				e.name = strings.TrimSpace(name)
			} else if want, is := strings.CutPrefix(line, "-> "); is {
				e.want += strings.TrimSuffix(want, "\n") + "\n"
			} else {
				e.config += line
			}
		}
		all = append(all, e)
	}
	return all
}

// In the files of mistakes, there is no state after a "fatal" problem. A problem with "here" is not in
// the common status. "without" is a neighbor that is left out.
func TestMistakesAreReported(t *testing.T) {
	for _, file := range []string{"legacy", "wrong_global", "wrong_neighbor", "wrong_netlink", "wrong_session"} {
		for _, tt := range examples(t, file) {
			t.Run(file+"/"+tt.name, func(t *testing.T) { reportMistake(t, tt) })
		}
	}
}

func reportMistake(t *testing.T, tt example) {
	t.Helper()
	d := decide(t, tt.config)
	if diff := cmp.Diff(trimmed(tt.want), complaints(d)); diff != "" {
		t.Errorf("the result differs (-want +got):\n%s", diff)
	}
	fatal := slices.ContainsFunc(d.Problems, func(p peering.Problem) bool { return p.Fatal })
	if d.OK == fatal {
		t.Errorf("OK is %v, want %v", d.OK, !fatal)
	}
	invariants(t, d)
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
