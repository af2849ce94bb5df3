package explain

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/service"
)

// KindAllocator is the kind of an Unread for the answer of the allocator at /state.
const KindAllocator = "State of the allocator"

// NewUnheard returns why the state of the agent of a node is unknown, or that of the allocator if node is "".
func NewUnheard(node, reason, why string) Unread {
	u := Unread{Kind: KindAllocator, Reason: reason, Why: why, Therefore: "what it has decided but not written yet is unknown"}
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

// delayed returns the allocator's reason why the status of the Service of r is not written for now, or nil.
func (v *view) delayed(r service.Request) *allocstate.Delayed {
	if v.Allocator == nil {
		return nil
	}
	return find(v.Allocator.Delayed, func(d allocstate.Delayed) bool { return d.Service == r.Key() })
}

// addAllocator adds what the allocator reports of the Service of r.
func (v *view) addAllocator(s *Story, r service.Request) {
	var lines []string
	if d := v.delayed(r); d != nil {
		if coming := missing(d.Holds, r.Shown); len(coming) > 0 {
			lines = append(lines, "it has chosen "+joined(coming)+" for the Service, whose status does not show that yet")
		}
		lines = append(lines, "its status is not written for now"+v.until(d.Until)+": "+d.Why)
	}
	s.add("What the allocator says", lines...)
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
