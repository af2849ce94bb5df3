package announce

import (
	"errors"
	"net/netip"
	"testing"
	"time"
)

// TestFlapDamping adds an address, or looks at it, at certain seconds.
func TestFlapDamping(t *testing.T) {
	const added, there, gone = "added", "there", "gone"
	type step struct {
		second int
		what   string
		may    bool // be added, when it is gone
	}
	for _, tt := range []struct {
		name  string
		steps []step
		fails bool
	}{
		{"what was never added may be", []step{{0, gone, true}}, false},
		{"what vanished once comes back at once", []step{{0, added, false}, {1, gone, true}}, false},
		{"what vanished twice waits for a second", []step{{0, added, false}, {1, gone, true}, {1, added, false}, {2, gone, false}, {3, gone, true}}, true},
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
			var f FlapDamping
			for _, s := range tt.steps {
				now := time.Unix(1000+int64(s.second), 0)
				switch s.what {
				case added:
					f.Add(now)
				case there:
					f.Present(now)
				default:
					if may := f.Missing(now); may != s.may {
						t.Errorf("after %d s it may be added: %v", s.second, may)
					}
				}
			}
			v4, v6 := f.Err(netip.MustParseAddr("192.0.2.9")), f.Err(netip.MustParseAddr("2001:db8::9"))
			if (v4 != nil) != tt.fails || tt.fails && (!errors.Is(v4, ErrVanishes4) || !errors.Is(v6, ErrVanishes6)) {
				t.Errorf("it fails by %v and %v", v4, v6)
			}
		})
	}
}
