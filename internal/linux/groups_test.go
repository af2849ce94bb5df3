package linux

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Kernels log when a link begins and ends to take in all groups.
func TestOnlyAQuestionAboutIPv6HasTheLinkTakeInAllGroups(t *testing.T) {
	for ask, want := range map[string]string{"192.0.2.9": "allmulti 0", "fd00::9": "allmulti 1", "192.0.2.9 fd00::9": "allmulti 1"} {
		newWorld(struct{ testing.TB }{t})
		newNeighborhood(t)
		s := newStack(t)
		var got string
		s.wait = func(_ context.Context, d time.Duration) error {
			if d > 0 {
				got = regexp.MustCompile(`allmulti \d`).FindString(ip(t, "-d link show eth0"))
			}
			return nil
		}
		if _, err := s.Probe(t.Context(), "eth0", addrsOf(strings.Fields(ask)...), shortly); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", ask, got, want)
		}
	}
}
