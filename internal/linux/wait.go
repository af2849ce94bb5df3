package linux

import (
	"context"
	"errors"
	"time"
)

// standstill is how much too long a wait may take. After a longer delay this process did
// not run, and what it heard before is no proof of who is there now.
const standstill = time.Second

// errStoodStill means that this process did not run for a while during a probe.
var errStoodStill = errors.New("this process stood still for more than a second")

// wait waits for d. On a busy machine that takes a little longer.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
	}
	if time.Since(began) > d+standstill {
		return errStoodStill
	}
	return nil
}
