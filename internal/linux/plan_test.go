package linux

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
)

// onEth0 returns addresses of ours on the link with index 2. The first address of a subnet
// is the primary one.
func onEth0(prefixes ...string) (all []held) {
	seen := map[subnet]bool{}
	for _, p := range prefixes {
		h := held{Address: remote("eth0", p), index: 2}
		h.Mark = announce.Mark
		h.Secondary = h.Prefix.Addr().Is4() && seen[subnetOf(h)]
		seen[subnetOf(h)] = true
		all = append(all, h)
	}
	return all
}

func eth0(promotes bool) map[string]link {
	return map[string]link{"eth0": {Link: announce.Link{Name: "eth0", Index: 2}, promotes: promotes}}
}

// steps returns the requests of a plan as text.
func steps(p *plan) string {
	var b strings.Builder
	for _, s := range p.steps {
		verb := "put"
		if s.old != nil {
			verb = "take off " + s.old.Prefix.String() + " for"
		}
		fmt.Fprintln(&b, verb, s.address.Prefix)
	}
	return b.String()
}

func TestPromoteSecondariesIsSetOnlyWhenNeeded(t *testing.T) {
	tests := []struct {
		name     string
		there    []held
		promotes bool
		remove   []string
		want     int
	}{
		{"a primary with a secondary", onEth0("192.0.2.1/24", "192.0.2.2/24"), false, []string{"192.0.2.1/24"}, 1},
		{"the link already promotes", onEth0("192.0.2.1/24", "192.0.2.2/24"), true, []string{"192.0.2.1/24"}, 0},
		{"a secondary", onEth0("192.0.2.1/24", "192.0.2.2/24"), false, []string{"192.0.2.2/24"}, 0},
		{"the primary and all its secondaries", onEth0("192.0.2.1/24", "192.0.2.2/24"), false, []string{"192.0.2.1/24", "192.0.2.2/24"}, 0},
		{"another subnet", onEth0("192.0.2.1/24", "198.51.100.1/24"), false, []string{"192.0.2.1/24"}, 0},
		{"another mask", onEth0("192.0.2.1/24", "192.0.2.2/25"), false, []string{"192.0.2.1/24"}, 0},
		{"IPv6 has no secondaries", onEth0("fd00::1/64", "fd00::2/64"), false, []string{"fd00::1/64"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlan(eth0(tt.promotes), tt.there, true)
			for _, prefix := range tt.remove {
				p.remove(remote("eth0", prefix))
			}
			if got := len(p.promote()); got != tt.want {
				t.Errorf("%d links, want %d", got, tt.want)
			}
		})
	}
}

func TestAPrimaryStaysWhenItsSecondariesCannotBeKept(t *testing.T) {
	p := newPlan(eth0(false), onEth0("192.0.2.1/24", "192.0.2.2/24", "192.0.2.3/24", "fd00::1/64"), true)
	for _, prefix := range []string{"192.0.2.1/24", "192.0.2.2/24", "fd00::1/64"} {
		p.remove(remote("eth0", prefix))
	}
	p.spare(p.links["eth0"], unix.EPERM)
	want := "take off 192.0.2.2/24 for 192.0.2.2/24\ntake off fd00::1/64 for fd00::1/64\n"
	if diff := cmp.Diff(want, steps(p)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	want = "192.0.2.1/24 on eth0: operation not permitted"
	if diff := cmp.Diff(want, errorText(errors.Join(p.failed...))); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

func TestRemovingAMissingAddressIsNoFailure(t *testing.T) {
	p := newPlan(eth0(false), onEth0("192.0.2.1/24", "fd00::1/64"), true)
	p.remove(remote("eth0", "192.0.2.1/24"))
	p.remove(remote("eth0", "fd00::1/64"))
	p.put(remote("eth0", "fd00::2/64"))
	p.report([]error{unix.EADDRNOTAVAIL, unix.ENODEV, unix.ENODEV})
	want := "fd00::2/64 on eth0: no such device"
	if diff := cmp.Diff(want, errorText(errors.Join(p.failed...))); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}
