package detector

import (
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

var epoch = time.Unix(1000, 0)

// after returns the time ms milliseconds after epoch.
func after(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

func TestMessagesAfterAPauseAreNotFresh(t *testing.T) {
	for _, tt := range []struct {
		name    string
		running []int // milliseconds after epoch
		at      int
		want    bool
	}{
		{"the first message", nil, 0, true},
		{"it runs", []int{0, 100, 200}, 300, true},
		{"the process runs slowly", []int{0, 500}, 1000, true},
		{"the message shows that the process paused", []int{0}, 501, false},
		{"the pause was noticed before the message", []int{0, 501}, 600, false},
		{"all waiting messages are read", []int{0, 501, 1000, 1500}, 1501, true},
	} {
		var g StallGuard
		for _, ms := range tt.running {
			g.Running(after(ms))
		}
		expect.Equal(t, tt.name+": the message is fresh", g.Fresh(after(tt.at)), tt.want)
	}
}
