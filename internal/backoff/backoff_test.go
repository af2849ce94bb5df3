package backoff

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

func TestSleep(t *testing.T) {
	for _, tt := range []struct {
		name           string
		d, limit, took time.Duration
		want           bool
	}{
		{"until the time has passed", time.Minute, time.Hour, time.Minute, true},
		{"until the context ends", time.Hour, time.Minute, time.Minute, false},
		{"not at all", 0, time.Minute, 0, true},
		{"for a negative time", -time.Minute, time.Minute, 0, true},
		{"after the end", 0, -time.Second, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithTimeout(t.Context(), tt.limit)
				defer end()
				began := time.Now()
				if got := Sleep(ctx, tt.d); got != tt.want || time.Since(began) != tt.took {
					t.Errorf("%v after %s, want %v after %s", got, time.Since(began), tt.want, tt.took)
				}
			})
		})
	}
}

func TestASignalEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		news, began := make(chan struct{}, 1), time.Now()
		time.AfterFunc(time.Minute, func() { Poke(news) })
		if !Wait(t.Context(), time.Hour, news) || time.Since(began) != time.Minute {
			t.Errorf("the wait ended after %s", time.Since(began))
		}
	})
}

func TestPausesDoubleUpToTheLongest(t *testing.T) {
	p := Pauses{Min: time.Second, Max: 5 * time.Second}
	var got []time.Duration
	for range 5 {
		got = append(got, p.Next())
	}
	p.Reset()
	got = append(got, p.Next(), p.Next())
	expect.Equal(t, "the result", fmt.Sprint(got), "[1s 2s 4s 5s 5s 1s 2s]")
}

func TestPausesAreSpreadAroundTheirMean(t *testing.T) {
	all := map[time.Duration]bool{}
	for range 100 {
		p := Pauses{Min: time.Second, Max: time.Minute, Spread: true}
		first, second := p.Next(), p.Next()
		if first < time.Second/2 || first >= 3*time.Second/2 || second < time.Second || second >= 3*time.Second {
			t.Fatalf("pauses of %s and %s, want about 1 and 2 s", first, second)
		}
		all[first] = true
	}
	if len(all) < 10 {
		t.Errorf("only %d different pauses", len(all))
	}
}

func TestTheZeroPausesDoNotWait(t *testing.T) {
	p := Pauses{Spread: true}
	expect.Equal(t, "the pause", p.Next(), 0)
}

func TestPauseAfterFailures(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 3: 4 * time.Second, 7: time.Minute, 1000: time.Minute} {
		expect.Equal(t, fmt.Sprintf("after %d failures", failures), After(failures, time.Second, time.Minute), want)
	}
}
