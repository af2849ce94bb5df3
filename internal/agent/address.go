package agent

import (
	"maps"
	"net/netip"
	"sync/atomic"
	"time"

	"purelb.io/purelb/internal/announce"
)

// address is what the agent remembers of one address between two passes. The zero address
// is nothing.
type address struct {
	// damping remembers when the address was added, until it has stayed for a while.
	damping announce.FlapDamping
	// failing is why it could not be added last time.
	failing error
	// garp is when to claim it, and periodic when to do that once more after it has been
	// here for long.
	garp     announce.GARP
	periodic time.Time
	// defended is when it was claimed last because another machine claimed it.
	defended time.Time
	// named is the other node that said last that it has the address, while it is here.
	named string
}

// addresses are the records of all addresses of which there is something to remember.
type addresses map[netip.Addr]*address

// of returns the record of ip, which it makes if there is none.
func (m addresses) of(ip netip.Addr) *address {
	one := m[ip]
	if one == nil {
		one = &address{}
		m[ip] = one
	}
	return one
}

// fail notes which addresses could not be added, and why, in place of those before.
func (m addresses) fail(failed map[netip.Addr]error) {
	for ip := range failed {
		m.of(ip)
	}
	for ip, one := range m {
		one.failing = failed[ip]
	}
}

// forget clears what counts only for an address that is wanted (damping), local (garp,
// named) or held (periodic, defended). It deletes the records in which nothing is left.
// Only here is a record deleted.
func (m addresses) forget(plan announce.Plan, held map[netip.Addr]string) {
	if len(m) == 0 {
		return
	}
	wanted, local := addressesOf(plan.Wanted), locals(plan)
	for ip, one := range m {
		if !wanted[ip] {
			one.damping = announce.FlapDamping{}
		}
		if local[ip] == nil {
			one.garp, one.named = announce.GARP{}, ""
		}
		if held[ip] == "" {
			one.periodic, one.defended = time.Time{}, time.Time{}
		}
		if one.empty() {
			delete(m, ip)
		}
	}
}

func (one *address) empty() bool {
	return one.damping == announce.FlapDamping{} && one.failing == nil && one.garp.Link == "" &&
		one.periodic.IsZero() && one.defended.IsZero() && one.named == ""
}

// heldAddresses are the addresses that are here and belong here: the local ones, and on a
// kernel without marks the remote ones. All of it but links belongs to the loop.
type heldAddresses struct {
	// links are the links of the local ones. The map is replaced, never changed.
	links atomic.Pointer[map[netip.Addr]string]
	// remote are the remote addresses. Where the kernel keeps marks, they are known by
	// their marks.
	remote map[netip.Addr]bool
}

// read returns the local addresses and their links. It is safe for concurrent use.
func (h *heldAddresses) read() map[netip.Addr]string {
	if links := h.links.Load(); links != nil {
		return *links
	}
	return nil
}

// hold notes what is here after a pass.
func (h *heldAddresses) hold(seen *observation, plan announce.Plan, done outcome) {
	here, carried := addressesOf(seen.Node.Addresses), announce.Carried(seen.Node)
	links, remote := map[netip.Addr]string{}, map[netip.Addr]bool{}
	for _, d := range plan.Decisions {
		_, just := done.added[d.IP]
		switch {
		case done.failed[d.IP] != nil:
		case d.Where == announce.Local && (just || carried[d.IP]):
			links[d.IP] = d.Address.Link
		case d.Where == announce.Remote && (just || here[d.IP]) && !seen.Node.MarksSupported:
			remote[d.IP] = true
		}
	}
	for ip := range h.remote {
		if here[ip] { // also if it could not be removed
			remote[ip] = true
		}
	}
	h.remote = remote
	if !maps.Equal(links, h.read()) {
		h.links.Store(&links)
	}
}

func addressesOf(addresses []announce.Address) map[netip.Addr]bool {
	set := make(map[netip.Addr]bool, len(addresses))
	for _, a := range addresses {
		set[a.Prefix.Addr()] = true
	}
	return set
}
