package linux

import (
	"context"
	"errors"
	"time"
)

// standstill is by how much a wait may be too long until what was heard before it
// says nothing any more of who is there after it: this process did not run.
const standstill = time.Second

// errStoodStill is a probe during which this process did not run for a while.
var errStoodStill = errors.New("this process stood still for more than a second")

// wait waits for d. That takes longer when the machine is busy, but not by much.
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
