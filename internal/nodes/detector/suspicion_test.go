package detector

import (
	"fmt"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

var epoch = time.Unix(1000, 0)

// after returns the time ms milliseconds after epoch.
func after(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

func TestSuspicionExpiresUnlessRefuted(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps func(Suspicions[string])
		at    int // milliseconds after epoch
		want  string
	}{
		{"no suspicion", func(Suspicions[string]) {}, 1000, "dead map[], late 0, next never"},
		{"before it is due", func(s Suspicions[string]) { s.Suspect("a", after(100), false) }, 99, "dead map[], late 0, next 100"},
		{"when it is due", func(s Suspicions[string]) { s.Suspect("a", after(100), false) }, 100, "dead map[a:false], late 0, next never"},
		{"a suspicion of membership", func(s Suspicions[string]) { s.Suspect("a", after(100), false); s.Suspect("a", after(200), true) }, 100, "dead map[a:true], late 0, next never"},
		{"the earliest suspicion counts", func(s Suspicions[string]) { s.Suspect("a", after(200), true); s.Suspect("a", after(100), false) }, 100, "dead map[a:true], late 0, next never"},
		{"refuted", func(s Suspicions[string]) { s.Suspect("a", after(100), false); s.Refute("a") }, 100, "dead map[], late 0, next never"},
		{"a heartbeat does not refute membership", func(s Suspicions[string]) { s.Suspect("a", after(100), true); s.Refute("a") }, 100, "dead map[a:true], late 0, next never"},
		{"membership refutes itself", func(s Suspicions[string]) { s.Suspect("a", after(100), true); s.RefuteConfirmed("a") }, 100, "dead map[], late 0, next never"},
		{"membership does not refute the watchers", func(s Suspicions[string]) { s.Suspect("a", after(100), false); s.RefuteConfirmed("a") }, 100, "dead map[a:false], late 0, next never"},
		{"dropped", func(s Suspicions[string]) { s.Suspect("a", after(100), true); s.Drop("a") }, 100, "dead map[], late 0, next never"},
		{"a process that paused waits once", func(s Suspicions[string]) { s.Suspect("a", after(100), false) }, 151, "dead map[], late 1, next 251"},
		{"a process that paused does not wait twice", func(s Suspicions[string]) { s.Suspect("a", after(100), false); s.Expire(after(151)) }, 1000, "dead map[a:false], late 0, next never"},
		{"the next suspicion is due later", func(s Suspicions[string]) { s.Suspect("a", after(100), false); s.Suspect("b", after(300), false) }, 100, "dead map[a:false], late 0, next 300"},
	} {
		s := NewSuspicions[string]()
		tt.steps(s)
		e := s.Expire(after(tt.at))
		next := "never"
		if !e.Next.IsZero() {
			next = fmt.Sprint(e.Next.Sub(epoch).Milliseconds())
		}
		expect.Equal(t, tt.name, fmt.Sprintf("dead %v, late %d, next %s", e.Dead, e.Late, next), tt.want)
	}
}

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
