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
