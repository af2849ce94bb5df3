package linux

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/testing/expect"
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

func TestAPrimaryStaysWhenItsSecondariesCannotBeKept(t *testing.T) {
	p := newPlan(eth0(false), onEth0("192.0.2.1/24", "192.0.2.2/24", "192.0.2.3/24", "fd00::1/64"), true)
	for _, prefix := range []string{"192.0.2.1/24", "192.0.2.2/24", "fd00::1/64"} {
		p.remove(remote("eth0", prefix))
	}
	p.spare(p.links["eth0"], unix.EPERM)
	want := "take off 192.0.2.2/24 for 192.0.2.2/24\ntake off fd00::1/64 for fd00::1/64\n"
	expect.Equal(t, "steps", steps(p), want)
	want = "192.0.2.1/24 on eth0: operation not permitted\n"
	expect.Equal(t, "failures", problems(errors.Join(p.failed...)), want)
}

func TestRemovingAMissingAddressIsNoFailure(t *testing.T) {
	p := newPlan(eth0(false), onEth0("192.0.2.1/24", "fd00::1/64"), true)
	p.remove(remote("eth0", "192.0.2.1/24"))
	p.remove(remote("eth0", "fd00::1/64"))
	p.put(remote("eth0", "fd00::2/64"))
	p.report([]error{unix.EADDRNOTAVAIL, unix.ENODEV, unix.ENODEV})
	want := "fd00::2/64 on eth0: no such device\n"
	expect.Equal(t, "failures", problems(errors.Join(p.failed...)), want)
}
