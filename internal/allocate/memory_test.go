package allocate

import (
	"testing"
	"time"
)

func TestARefusalIsToldAgainBeforeItsEventEnds(t *testing.T) {
	m, start := memory{}, time.Unix(0, 0)
	for _, tt := range []struct {
		after   time.Duration
		refused bool
		tell    bool
		next    time.Duration
	}{
		{0, true, false, 50 * time.Minute}, // the event of the refusal, or a process that has just started
		{20 * time.Minute, true, false, 30 * time.Minute},
		{50 * time.Minute, true, true, 50 * time.Minute},
		{55 * time.Minute, true, false, 45 * time.Minute},
		{56 * time.Minute, false, false, 0},
		{3 * time.Hour, true, false, 50 * time.Minute},
	} {
		tell, next := m.remind(tt.refused, start.Add(tt.after))
		if tell != tt.tell || next != tt.next {
			t.Errorf("after %s: %t, %s; want %t, %s", tt.after, tell, next, tt.tell, tt.next)
		}
	}
}
