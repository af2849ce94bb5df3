package linux

import (
	"context"
	"errors"
	"time"

	"purelb.io/purelb/internal/backoff"
)

// standstill is the delay at the end of a wait that proves that this process did not run meanwhile.
// After such a delay, earlier packets are no proof of the present state of the segment.
const standstill = time.Second

// errStoodStill means that this process did not run for a while during a probe.
var errStoodStill = errors.New("this process stood still for more than a second")

// wait waits for d. On a busy machine that takes a little longer.
func wait(ctx context.Context, d time.Duration) error {
	began := time.Now()
	if !backoff.Sleep(ctx, d) {
		return ctx.Err()
	}
	if d > 0 && time.Since(began) > d+standstill {
		return errStoodStill
	}
	return nil
}
