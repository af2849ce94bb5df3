package announce_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/config"
)

func TestSchedule(t *testing.T) {
	const half = 500 * time.Millisecond
	for _, tt := range []struct {
		name string
		garp config.GARP
		want []time.Duration
	}{
		{"not one claim when disabled", config.GARP{Count: 3, Interval: time.Second}, nil},
		{"not one claim when none is asked for", config.GARP{Enabled: true, Interval: time.Second}, nil},
		{"the first at once, the others an interval apart", config.GARP{Enabled: true, Count: 3, Interval: half}, []time.Duration{0, half, time.Second}},
		{"the delay comes before the first", config.GARP{Enabled: true, InitialDelay: half, Count: 2, Interval: time.Second}, []time.Duration{half, 3 * half}},
	} {
		t.Run(tt.name, func(t *testing.T) { equal(t, announce.Schedule(tt.garp), tt.want) })
	}
}

func TestGARPTimes(t *testing.T) {
	start := time.Unix(1000, 0)
	every := config.GARP{Enabled: true, Count: 2, InitialDelay: 100 * time.Millisecond, Interval: time.Second}
	// times runs g until a minute later, and returns when it was due.
	times := func(g announce.GARP) (due []time.Duration) {
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
	detecting := announce.StartGARP(start, "eth0", every, false)
	detecting.Detected(start, every, true, false)
	if detecting.Take(start.Add(time.Minute)) || !detecting.Next().IsZero() || detecting.Link == "" {
		t.Errorf("while the kernel looks for duplicates: %+v", detecting)
	}
	detecting.Detected(start.Add(time.Second), every, true, true)
	for _, tt := range []struct {
		name string
		garp announce.GARP
		want []time.Duration
	}{
		{"an address that is new", announce.StartGARP(start, "eth0", every, false), []time.Duration{100 * time.Millisecond, 1100 * time.Millisecond}},
		{"an address that moves", announce.StartGARP(start, "eth0", every, true), []time.Duration{0, 100 * time.Millisecond, 1100 * time.Millisecond}},
		{"what was missed is not made up for", announce.StartGARP(start.Add(-time.Hour), "eth0", every, false), []time.Duration{0}},
		{"when duplicates have been looked for", detecting, []time.Duration{1100 * time.Millisecond, 2100 * time.Millisecond}},
		{"when that is switched off", announce.StartGARP(start, "eth0", config.GARP{}, true), nil},
	} {
		t.Run(tt.name, func(t *testing.T) { equal(t, times(tt.garp), tt.want) })
	}
}

// TestFlapDamping adds an address, or looks at it, at certain seconds.
func TestFlapDamping(t *testing.T) {
	const added, there, gone = "added", "there", "gone"
	type step struct {
		second int
		what   string
		may    bool // be added, when it is gone
	}
	// used adds an address and removes it each second.
	used := func(times int) (all []step) {
		for second := range times {
			all = append(all, step{second, added, false}, step{second, there, false}, step{second + 1, gone, true})
		}
		return append(all, step{times, added, false}, step{times, there, false})
	}
	for _, tt := range []struct {
		name  string
		steps []step
		fails bool
	}{
		{"what was never added may be", []step{{0, gone, true}}, false},
		{"what vanished once comes back at once", []step{{0, added, false}, {1, gone, true}}, false},
		{"what vanished twice waits for a second", []step{{0, added, false}, {1, gone, true}, {1, added, false}, {2, gone, false}, {3, gone, true}}, true},
		{"what vanishes each second after it was in use comes back at once", used(10), false},
		{"but only for a while", append(used(60), step{61, gone, true}, step{61, added, false}, step{61, there, false}, step{62, gone, false}, step{63, gone, true}), true},
		{"the third pause is two seconds", []step{
			{0, added, false}, {1, gone, true}, {1, added, false}, {2, gone, false}, {3, gone, true}, {3, added, false},
			{4, gone, false}, {5, gone, false}, {6, gone, true},
		}, true},
		{"what has stayed is forgiven", []step{
			{0, added, false}, {1, gone, true}, {1, added, false}, {2, gone, false}, {3, gone, true}, {3, added, false}, {8, there, false},
		}, false},
		{"what vanishes after it has stayed begins anew", []step{{0, added, false}, {1, gone, true}, {1, added, false}, {2, there, false}, {60, gone, true}}, false},
		{"what was never in use has not stayed, however long it took", []step{{0, added, false}, {8, gone, true}, {8, added, false}, {16, gone, false}, {17, gone, true}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var f announce.FlapDamping
			for _, s := range tt.steps {
				now := time.Unix(1000+int64(s.second), 0)
				switch s.what {
				case added:
					f.Add(now, false)
				case there:
					f.Present(now)
				default:
					if may := f.Missing(now, true); may != s.may {
						t.Errorf("after %d s it may be added: %v", s.second, may)
					}
				}
			}
			v4, v6 := f.Err(netip.MustParseAddr("192.0.2.9")), f.Err(netip.MustParseAddr("2001:db8::9"))
			if (v4 != nil) != tt.fails || tt.fails && (!errors.Is(v4, announce.ErrVanishes4) || !errors.Is(v6, announce.ErrVanishes6)) {
				t.Errorf("it fails by %v and %v", v4, v6)
			}
		})
	}
}

// A MAC is easy to forge. The machines of one address must not take the room of all others.
func TestConflictsAreLimited(t *testing.T) {
	c, now, ip := announce.Conflicts{}, time.Unix(1000, 0), netip.MustParseAddr("10.0.0.1")
	for i := range 10_000 {
		c.Note(now, announce.Rival{IP: ip, MAC: [6]byte{2, 0, 0, 0, byte(i >> 8), byte(i)}}, "eth0", true)
	}
	c.Inherit(announce.Rival{IP: ip, MAC: [6]byte{4}}, "", "eth0", now)
	equal(t, len(c), 4)
	for range 2000 { // one machine with many addresses
		ip = ip.Next()
		c.Note(now, announce.Rival{IP: ip, MAC: [6]byte{2}}, "eth0", true)
	}
	equal(t, len(c), 1024)
}
