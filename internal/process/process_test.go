package process

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

var (
	errBroken  = errors.New("broken")
	errGoodbye = errors.New("the goodbye was not sent")
)

// until runs until its context is done, and then for the time takes.
func until(takes time.Duration, result error) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		time.Sleep(takes)
		return result
	}
}

// after ends by itself after some time.
func after(lives time.Duration, result error) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(lives)
		return result
	}
}

// lives fails the test unless its context lasts that long.
func lives(t *testing.T, want time.Duration) func(context.Context) error {
	began := time.Now()
	return func(ctx context.Context) error {
		<-ctx.Done()
		expect.Equal(t, "the life of a part", time.Since(began), want)
		return nil
	}
}

func TestPartsThatRunTogetherEndTogether(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit time.Duration
		part  func(context.Context) error
		want  error
	}{
		{"when their context ends", time.Second, until(0, nil), nil},
		{"when one of them is done", time.Hour, after(time.Second, nil), nil},
		{"when one of them fails", time.Hour, after(time.Second, errBroken), errBroken},
		{"when one of them is slow to end, and fails", time.Second, until(time.Hour, errBroken), errBroken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
				defer cancel()
				if err := Together(ctx, lives(t, time.Second), tt.part, lives(t, time.Second)); !errors.Is(err, tt.want) {
					t.Errorf("ended with %v, want %v", err, tt.want)
				}
			})
		})
	}
}

func TestServersRunUntilTheGoodbyeIsSent(t *testing.T) {
	for _, tt := range []struct {
		name  string
		part  func(context.Context) error
		lives time.Duration
		want  []error
	}{
		{"at the end", until(0, nil), 12 * time.Second, []error{errGoodbye}},
		{"when a part fails", after(time.Second, errBroken), 3 * time.Second, []error{errBroken, errGoodbye}},
		{"when a part is done", after(time.Second, nil), 3 * time.Second, []error{errGoodbye}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				err := Outlive(ctx, until(2*time.Second, errGoodbye), lives(t, tt.lives), tt.part)
				for _, want := range tt.want {
					if !errors.Is(err, want) {
						t.Errorf("ended with %v, want %v", err, want)
					}
				}
			})
		})
	}
}

func TestOuterPartsEndAfterTheInnerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := Outlive(t.Context(), after(time.Second, errBroken), lives(t, time.Second)); !errors.Is(err, errBroken) {
			t.Errorf("ended with %v, want %v", err, errBroken)
		}
	})
}
