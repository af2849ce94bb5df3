package allocator

import (
	"fmt"
	"strings"
	"testing"

	"purelb.io/purelb/internal/ipam"
)

func TestUnknownPoolNamesAreLimited(t *testing.T) {
	asked := func(name string) *ipam.Refusal {
		return &ipam.Refusal{Metric: "unknown_pool", Pool: "<unknown>", Named: name}
	}
	var names unknownPools
	for i := range mostUnknownPools {
		name := fmt.Sprintf("pool-%d", i)
		if got := names.label(asked(name)); got != name {
			t.Fatalf("%s counts as %s", name, got)
		}
	}
	tests := []struct {
		refusal *ipam.Refusal
		want    string
	}{
		{asked("pool-7"), "pool-7"},
		{asked("one-more"), "<unknown>"},
		{&ipam.Refusal{Pool: "default"}, "default"},
		{&ipam.Refusal{Pool: "<unknown>"}, "<unknown>"},
	}
	for _, tt := range tests {
		if got := names.label(tt.refusal); got != tt.want {
			t.Errorf("%+v counts as %s, want %s", *tt.refusal, got, tt.want)
		}
	}
	for _, name := range []string{"", "a\xff", "a\x00b", strings.Repeat("a", 400)} {
		var fresh unknownPools
		if got := fresh.label(asked(name)); got != "<unknown>" {
			t.Errorf("%q counts as %q", name, got)
		}
	}
}
