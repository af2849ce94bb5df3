package routing

import "testing"

// The user turns the export of one of two speakers off, as ErrNotAlone says.
func TestASpeakerThatWritesNoMoreMakesRoom(t *testing.T) {
	t.Parallel()
	s := router(t)
	first, second := s.kernel(t), s.kernel(t)
	program(t, first, learned("198.51.100.0/24", "192.0.2.254"))
	program(t, first)
	program(t, second, learned("198.51.101.0/24", "192.0.2.254"))
}
