package main

import (
	"context"
	"fmt"
	"time"

	"purelb.io/purelb/internal/backoff"
)

// pause is the time between two questions about a whole cluster.
const pause = 2 * time.Second

// await calls ask every so often until done is true or ctx ends, and returns the last answer. It fails if there
// was no answer, or if another attempt cannot succeed.
func await[T any](ctx context.Context, o *options, every time.Duration, ask func(context.Context) (answer T, done bool, err error)) (T, error) {
	var last, none T
	var said string
	answered := false
	for {
		answer, done, err := ask(ctx)
		switch {
		case err == nil && done:
			return answer, nil
		case err == nil:
			last, answered, said = answer, true, ""
		case ctx.Err() == nil && hopeless(err):
			return none, err
		case ctx.Err() == nil && err.Error() != said:
			said = err.Error()
			fmt.Fprintln(o.errs, "asking again:", said)
		}
		switch {
		case backoff.Sleep(ctx, every):
		case answered:
			return last, nil
		default:
			return none, fmt.Errorf("there was no answer in time: %w", err)
		}
	}
}
