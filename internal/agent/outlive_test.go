package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// until runs until its context is done, and then as long as it takes.
func until(takes time.Duration, result error) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		time.Sleep(takes)
		return result
	}
}

func TestWhatTheGoodbyeNeedsRunsUntilItIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began := time.Now()
		other := func(ctx context.Context) error {
			<-ctx.Done()
			if lived := time.Since(began); lived != 3*time.Second {
				t.Errorf("the other lived for %s, want 3s", lived)
			}
			return nil
		}
		time.AfterFunc(time.Second, cancel)
		if err := outlive(ctx, until(2*time.Second, nil), other); err != nil {
			t.Error(err)
		}
	})
}

func TestWhenOnePartFailsAllEnd(t *testing.T) {
	errBroken := errors.New("broken")
	synctest.Test(t, func(t *testing.T) {
		broken := func(context.Context) error { time.Sleep(time.Second); return errBroken }
		if err := outlive(t.Context(), until(0, nil), until(0, nil), broken); !errors.Is(err, errBroken) {
			t.Errorf("ended with %v", err)
		}
	})
}
