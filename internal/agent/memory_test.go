package agent

import (
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/announce"
)

func TestMemoryIsGivenBackOnceAfterManyAddressesCameOrWent(t *testing.T) {
	a := New(Options{})
	busy := map[netip.Addr]announce.Address{addrOf("192.0.2.9"): {}}
	for _, step := range []struct {
		name      string
		addresses int
		added     map[netip.Addr]announce.Address
		want      bool
	}{
		{"few came", 999, nil, false},
		{"many come", 5000, busy, false},
		{"many have come", 5000, nil, true},
		{"nothing happens", 5000, nil, false},
		{"few go", 4500, nil, false},
		{"many have gone", 4000, nil, true},
	} {
		if got := len(a.freeMemory(step.addresses, outcome{added: step.added}).tasks) == 1; got != step.want {
			t.Errorf("%s: it is given back: %v", step.name, got)
		}
	}
}
