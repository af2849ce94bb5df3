package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// KindAllocator is the kind of an Unread for the answer of the allocator at /state.
const KindAllocator = "State of the allocator"

// NewUnheard returns why the state of the agent of a node is unknown, or that of the allocator if node is "".
func NewUnheard(node, reason, why string) Unread {
	u := Unread{Kind: KindAllocator, Reason: reason, Why: why, Therefore: "what it has decided but not written yet, and what its backends answered it, is unknown"}
	if node != "" {
		u.Kind, u.Therefore = "State of the agent of "+node, "why it does not have an address that it should have is unknown"
	}
	return u
}

// unheardAllocator returns unread, and the allocator if it did not answer.
func (v *view) unheardAllocator(unread []Unread) []Unread {
	return append(slices.Clone(unread), slices.DeleteFunc(slices.Clone(v.Unheard), func(u Unread) bool { return u.Kind != KindAllocator })...)
}

// unheardAgents returns unread, and the agents that did not answer.
func (v *view) unheardAgents(unread []Unread) []Unread {
	return append(slices.Clone(unread), slices.DeleteFunc(slices.Clone(v.Unheard), func(u Unread) bool { return u.Kind == KindAllocator })...)
}

// delayed returns the allocator's reason why the status of the Service of r is not written for now, or
// false.
func (v *view) delayed(r service.Request) (allocstate.Delayed, bool) {
	if v.Allocator == nil {
		return allocstate.Delayed{}, false
	}
	i := slices.IndexFunc(v.Allocator.Delayed, func(d allocstate.Delayed) bool { return d.Service == r.Key() })
	if i < 0 {
		return allocstate.Delayed{}, false
	}
	return v.Allocator.Delayed[i], true
}

// addAllocator adds what the allocator reports of the Service of r.
func (v *view) addAllocator(s *Story, r service.Request) {
	var lines []string
	if d, ok := v.delayed(r); ok {
		if coming := missing(d.Holds, r.Shown); len(coming) > 0 {
			lines = append(lines, "it has chosen "+texts(coming)+" for the Service, whose status does not show that yet")
		}
		lines = append(lines, "its status is not written for now"+v.until(d.Until)+": "+d.Why)
	}
	s.add("What the allocator says", lines...)
}

// since describes how long something has lasted, or returns "" if that is not known.
func (v *view) since(t time.Time) string {
	if t.IsZero() || v.Now.IsZero() {
		return ""
	}
	return " for " + short(v.Now.Sub(t))
}

// until describes how long something lasts, or returns "" if that is not known.
func (v *view) until(t time.Time) string {
	if t.IsZero() || v.Now.IsZero() || !t.After(v.Now) {
		return ""
	}
	return " in " + short(t.Sub(v.Now))
}

// missing returns those of wanted that are not in shown.
func missing(wanted, shown []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(wanted), func(a netip.Addr) bool { return slices.Contains(shown, a) })
}

// heldUnshown returns the Services that hold a according to the allocator, but whose statuses do
// not show a yet.
func (v *view) heldUnshown(a netip.Addr, shown []ipam.Owner) []string {
	var holders []string
	if v.Allocator != nil {
		for _, d := range v.Allocator.Delayed {
			if slices.Contains(d.Holds, a) && !slices.Contains(shown, ipam.Owner(d.Service)) {
				holders = append(holders, d.Service)
			}
		}
	}
	return holders
}

// backend returns the allocator's report on the backend of g, or false.
func (v *view) backend(g groups.Group) (allocstate.Backend, bool) {
	if v.Allocator == nil {
		return allocstate.Backend{}, false
	}
	i := slices.IndexFunc(v.Allocator.Backends, func(b allocstate.Backend) bool { return b.Group == g.Ref() })
	if i < 0 {
		return allocstate.Backend{}, false
	}
	return v.Allocator.Backends[i], true
}

// backendLines describes the state of the backend of g.
func (v *view) backendLines(g groups.Group) []string {
	b, ok := v.backend(g)
	if !ok {
		return nil
	}
	lines := []string{b.Name + " has not answered yet"}
	if !b.Reached.IsZero() {
		lines[0] = b.Name + " answered " + short(v.Now.Sub(b.Reached)) + " ago"
	}
	if b.Fault != "" {
		lines = append(lines, fmt.Sprintf("it has not worked%s (%s): %s", v.since(b.Since), b.FaultKind, b.Fault))
	}
	lines = append(lines, b.Warnings...)
	if b.Orphans > 0 {
		lines = append(lines, fmt.Sprintf("it holds %d addresses for this cluster that no Service has; to release them: kubectl purelb ipam release-orphans %s", b.Orphans, g.Ref()))
	}
	if b.Missing > 0 {
		lines = append(lines, fmt.Sprintf("it does not know %d addresses that Services have; it is told of them", b.Missing))
	}
	return lines
}

// addAllocatorTo adds to s what the leading allocator reports of itself, and of Services without a
// warning.
func (v *view) addAllocatorTo(s *Status) {
	a := v.Allocator
	if a == nil {
		return
	}
	s.Leader = a.Identity
	if !a.Complete {
		s.warn("the allocator %s, which leads, has not read all Services yet: until then it gives no addresses", a.Identity)
	}
	for _, d := range a.Delayed {
		if !slices.ContainsFunc(s.Warnings, func(w string) bool { return strings.HasPrefix(w, "Service "+d.Service+": ") }) {
			s.warn("Service %s: its status is not written for now%s: %s", d.Service, v.until(d.Until), d.Why)
		}
	}
}
