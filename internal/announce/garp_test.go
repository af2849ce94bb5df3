package announce

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/config"
)

func TestSchedule(t *testing.T) {
	tests := []struct {
		name string
		garp config.GARP
		want []time.Duration
	}{
		{
			name: "not one claim when disabled",
			garp: config.GARP{Count: 3, Interval: time.Second},
		},
		{
			name: "not one claim when none is asked for",
			garp: config.GARP{Enabled: true, Interval: time.Second},
		},
		{
			name: "the first at once, the others an interval apart",
			garp: config.GARP{Enabled: true, Count: 3, Interval: 500 * time.Millisecond},
			want: []time.Duration{0, 500 * time.Millisecond, time.Second},
		},
		{
			name: "the delay comes before the first",
			garp: config.GARP{Enabled: true, InitialDelay: 100 * time.Millisecond, Count: 2, Interval: 500 * time.Millisecond},
			want: []time.Duration{100 * time.Millisecond, 600 * time.Millisecond},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Schedule(tt.garp)); diff != "" {
				t.Errorf("schedule (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGARPTimes(t *testing.T) {
	start := time.Unix(1000, 0)
	every := config.GARP{Enabled: true, Count: 2, InitialDelay: 100 * time.Millisecond, Interval: time.Second}
	// times runs g until a minute later, and returns when it was due.
	times := func(g GARP) (due []time.Duration) {
		for now := start; now.Before(start.Add(time.Minute)); now = now.Add(100 * time.Millisecond) {
			if g.Take(now) {
				due = append(due, now.Sub(start))
			}
		}
		if g.Link != "" || !g.Next().IsZero() {
			t.Errorf("left is %+v", g)
		}
		return due
	}
	detecting := StartGARP(start, "eth0", every, false)
	detecting.Detected(start, every, true, false)
	if detecting.Take(start.Add(time.Minute)) || !detecting.Next().IsZero() || detecting.Link == "" {
		t.Errorf("while the kernel looks for duplicates: %+v", detecting)
	}
	detecting.Detected(start.Add(time.Second), every, true, true)
	for _, tt := range []struct {
		name string
		garp GARP
		want []time.Duration
	}{
		{"an address that is new", StartGARP(start, "eth0", every, false), []time.Duration{100 * time.Millisecond, 1100 * time.Millisecond}},
		{"an address that moves", StartGARP(start, "eth0", every, true), []time.Duration{0, 100 * time.Millisecond, 1100 * time.Millisecond}},
		{"what was missed is not made up for", StartGARP(start.Add(-time.Hour), "eth0", every, false), []time.Duration{0}},
		{"when duplicates have been looked for", detecting, []time.Duration{1100 * time.Millisecond, 2100 * time.Millisecond}},
		{"when that is switched off", StartGARP(start, "eth0", config.GARP{}, true), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, times(tt.garp)); diff != "" {
				t.Errorf("times (-want +got):\n%s", diff)
			}
		})
	}
}
