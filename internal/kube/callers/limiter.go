package callers

import (
	"maps"
	"time"
)

// limiter lets each key pass burst times at once, and then once in each interval every. It
// remembers recent keys, up to the number most. While it is full, it refuses other keys.
type limiter struct {
	every time.Duration
	burst int
	most  int
	// full is when each key may pass burst times again.
	full map[string]time.Time
}

// allow reports whether key may pass now.
func (l *limiter) allow(now time.Time, key string) bool {
	full, known := l.full[key]
	if !known && len(l.full) >= l.most {
		maps.DeleteFunc(l.full, func(_ string, full time.Time) bool { return !full.After(now) })
		if len(l.full) >= l.most {
			return false
		}
	}
	if full.Before(now) {
		full = now
	}
	if full = full.Add(l.every); full.Sub(now) > l.every*time.Duration(l.burst) {
		return false
	}
	if l.full == nil {
		l.full = map[string]time.Time{}
	}
	l.full[key] = full
	return true
}
