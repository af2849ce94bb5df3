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

// states are the states of all groups.
type states struct {
	changed func(group string)

	mu      sync.Mutex
	entries map[string]*entry
}

func newStates(changed func(string)) *states {
	return &states{changed: changed, entries: map[string]*entry{}}
}

// entry is the state of a group, as its worker writes it.
type entry struct {
	of *states
	// state is guarded by the lock of states. What its fields refer to is replaced, never
	// changed.
	state State
	// warnings are the warnings of each part.
	warnings map[string][]string
}

// add begins the state of a group that has a new worker.
func (s *states) add(begin State) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &entry{of: s, state: begin, warnings: map[string][]string{}}
	s.entries[begin.Group] = e
	return e
}

func (s *states) remove(group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, group)
}

func (s *states) all() map[string]State {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]State{}
	for group, e := range s.entries {
		all[group] = e.state
	}
	return all
}

// update changes the state, and reports the change if people can see it.
func (e *entry) update(change func(*State)) {
	e.of.mu.Lock()
	before := e.state
	change(&e.state)
	after := e.state
	current := e.of.entries[after.Group] == e
	e.of.mu.Unlock()
	before.Reached, after.Reached = time.Time{}, time.Time{}
	if current && !reflect.DeepEqual(before, after) {
		e.of.changed(after.Group)
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

// away records that the backend does not answer.
func (e *entry) away() bool {
	e.of.mu.Lock()
	defer e.of.mu.Unlock()
	fault := e.state.Fault
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
