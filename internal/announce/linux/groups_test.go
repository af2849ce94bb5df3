package linux

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/testing/expect"
)

// The kernel logs when a link starts or stops accepting all multicast groups.
func TestOnlyAnIPv6ProbeEnablesAllMulticast(t *testing.T) {
	requests := shortly
	requests.Requests, requests.Sources = true, sources("fd00::1/64")
	for _, tt := range []struct {
		asking    announce.Probing
		ask, want string
	}{
		{shortly, "192.0.2.9", "allmulti 0"}, {shortly, "fd00::9", "allmulti 1"}, {shortly, "192.0.2.9 fd00::9", "allmulti 1"},
		{requests, "192.0.2.9 fd00::9", "allmulti 0"},
	} {
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
		if _, err := s.Probe(t.Context(), "eth0", addrsOf(strings.Fields(tt.ask)...), tt.asking); err != nil {
			t.Fatal(err)
		}
		expect.Equal(t, tt.ask, got, tt.want)
	}
}
