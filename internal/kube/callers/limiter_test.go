package callers

import (
	"fmt"
	"testing"
	"time"
)

func TestLimiterAllowsABurst(t *testing.T) {
	l := limiter{every: time.Second, burst: 3, most: 2}
	now := time.Now()
	pass := func(after time.Duration, key string) bool { return l.allow(now.Add(after), key) }
	for i, tt := range []struct {
		after time.Duration
		key   string
		want  bool
	}{
		{0, "a", true}, {0, "a", true}, {0, "a", true}, {0, "a", false}, {0, "b", true},
		{999 * time.Millisecond, "a", false}, {time.Second, "a", true}, {time.Second, "a", false},
		{time.Second, "c", true},  // b may pass again, so the limiter need not remember it
		{time.Second, "d", false}, // the limiter remembers a and c
		{time.Minute, "d", true},
	} {
		if got := pass(tt.after, tt.key); got != tt.want {
			t.Errorf("%d: %s after %s: %t, want %t", i, tt.key, tt.after, got, tt.want)
		}
	}
}

func TestALimiterRemembersFewKeys(t *testing.T) {
	l := limiter{every: time.Second, burst: 3, most: 100}
	now := time.Now()
	passed := 0
	for i := range 10000 {
		if l.allow(now, fmt.Sprint(i)) {
			passed++
		}
	}
	if passed != 100 || len(l.full) != 100 {
		t.Errorf("%d passed and the limiter remembers %d, want 100", passed, len(l.full))
	}
}
