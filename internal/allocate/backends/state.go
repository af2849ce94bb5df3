package backends

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"purelb.io/purelb/internal/allocate/ipam"
)

// State is the state of the backend of a group.
type State struct {
	Group string
	// Capacity is what the backend last reported about its addresses. Before its first
	// report, only Backend may be set.
	ipam.Capacity
	// Reached is when the backend last performed a request, or refused it for a reason of
	// the claim. It is zero if it never did.
	Reached time.Time
	// Fault is why the backend does not work, nil if it works.
	Fault *Fault
	// Warnings say what works, but not safely or not completely, and how to correct it.
	Warnings []string
	// Orphans counts the addresses that the backend holds for this cluster but that none of its
	// Services has. Listed are the first of them, and Digest identifies all of them. Missing counts
	// the addresses that Services have but that the backend does not hold for them.
	Orphans, Missing int
	Listed           []ipam.Grant
	Digest           string
}

// Fault is why a backend does not work.
type Fault struct {
	Kind    ipam.Kind
	Message string
	// Since is when this process first saw that the backend does not work.
	Since time.Time
}

// entry is the state of a group, as its worker writes it.
type entry struct {
	// changed is called when the visible part of the state has changed.
	changed func(group string)

	mu sync.Mutex // guards what follows
	// What the fields of state refer to is replaced, never changed.
	state State
	// warnings are the warnings of each part.
	warnings map[string][]string
}

// now returns the state.
func (e *entry) now() State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state
}

// update changes the state, and reports the change if people can see it.
func (e *entry) update(change func(*State)) {
	e.mu.Lock()
	before := e.state
	change(&e.state)
	after := e.state
	e.mu.Unlock()
	before.Reached, after.Reached = time.Time{}, time.Time{}
	if !reflect.DeepEqual(before, after) {
		e.changed(after.Group)
	}
}

// warn replaces the warnings of a part.
func (e *entry) warn(part string, warnings ...string) {
	e.update(func(s *State) {
		e.warnings[part] = warnings
		s.Warnings = nil
		for _, part := range slices.Sorted(maps.Keys(e.warnings)) {
			s.Warnings = append(s.Warnings, e.warnings[part]...)
		}
	})
}

// reached notes that the backend performs requests.
func (e *entry) reached(now time.Time) { e.update(func(s *State) { s.Reached = now }) }

// away reports whether the backend does not answer.
func (e *entry) away() bool {
	fault := e.now().Fault
	return fault != nil && fault.Kind != ipam.KindMisconfigured
}

// fail records why the backend does not work, or nil if it works. It returns the fault that begins
// now and the fault that ends now. Each may be nil.
func (e *entry) fail(now time.Time, err *ipam.Error) (began, ended *Fault) {
	e.update(func(s *State) {
		was := s.Fault
		switch {
		case err == nil:
			s.Fault, ended = nil, was
		case was == nil || was.Kind != err.Kind:
			s.Fault = &Fault{Kind: err.Kind, Message: err.Message, Since: now}
			if began = s.Fault; was != nil {
				s.Fault.Since = was.Since
			}
		case was.Message != err.Message:
			s.Fault = &Fault{Kind: err.Kind, Message: err.Message, Since: was.Since}
		}
	})
	return began, ended
}

// measured notes the capacity that the backend reports.
func (e *entry) measured(c ipam.Capacity) {
	e.update(func(s *State) {
		c.Backend = cmp.Or(c.Backend, s.Backend)
		s.Capacity = c
	})
}
