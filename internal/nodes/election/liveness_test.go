package election_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/nodes/election"
)

const (
	lease     = 10 * time.Second
	tolerance = 4 * time.Second
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at returns the time second seconds after the start.
func at(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }

// livenessAfter returns a Liveness after these steps. "3 see a/7": at second 3, the Lease of a was observed
// with version 7. "0-9 contact": contact was proven in every second from 0 to 9.
func livenessAfter(t *testing.T, steps ...string) *election.Liveness {
	t.Helper()
	l := election.NewLiveness(tolerance)
	for _, s := range steps {
		when, what, _ := strings.Cut(s, " ")
		var first, last int
		if n, _ := fmt.Sscanf(when, "%d-%d", &first, &last); n == 1 {
			last = first
		}
		for second := first; second <= last; second++ {
			tell(t, l, second, what)
		}
	}
	return l
}

func tell(t *testing.T, l *election.Liveness, second int, what string) {
	t.Helper()
	verb, object, _ := strings.Cut(what, " ")
	switch verb {
	case "see":
		node, version, _ := strings.Cut(object, "/")
		l.Observe(node, version, lease, at(second))
	case "forget":
		l.Forget(object)
	case "contact":
		l.Contact(at(second))
	case "lost":
		l.LostContact(at(second))
	default:
		t.Fatalf("cannot %s", what)
	}
}

func show(l *election.Liveness, now time.Time) string {
	nodes, trusted := l.Live(now)
	return fmt.Sprintf("%s trusted=%t", strings.Join(nodes, " "), trusted)
}

func TestLiveness(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []string
		now   int
		want  string
	}{
		{"nothing was seen", nil, 0, " trusted=false"},
		{"an observation before the first contact is not trusted", []string{"0 see a/1", "0 see b/1"}, 1, "a b trusted=false"},
		{"a Lease that existed at the start is alive for one duration", []string{"0 see a/1", "0-9 contact"}, 9, "a trusted=true"},
		{"a Lease that existed at the start is alive only for one duration", []string{"0 see a/1", "0-10 contact"}, 10, " trusted=true"},
		{"time before the first contact does not count", []string{"0 see a/1", "8-17 contact"}, 17, "a trusted=true"},
		{"a change keeps it alive", []string{"0 see a/1", "0-7 contact", "7 see a/2", "8-16 contact"}, 16, "a trusted=true"},
		{"for one duration after the observed change", []string{"0 see a/1", "0-7 contact", "7 see a/2", "8-17 contact"}, 17, " trusted=true"},
		{"an unchanged version is no change", []string{"0 see a/1", "0-7 contact", "7 see a/1", "8-10 contact"}, 10, " trusted=true"},
		{"any change counts, also to a smaller version",
			[]string{"0 see a/2026-01-01", "0-7 contact", "7 see a/1970-01-01", "8-16 contact"}, 16, "a trusted=true"},
		{"a change revives a dead Lease", []string{"0 see a/1", "0-20 contact", "20 see a/2"}, 20, "a trusted=true"},
		{"only a change revives a dead Lease", []string{"0 see a/1", "0-20 contact", "20 see a/1", "21 contact"}, 21, " trusted=true"},
		{"a deleted Lease counts for no node", []string{"0 see a/1", "0 see b/1", "0-2 contact", "2 forget a"}, 2, "b trusted=true"},
		{"each Lease has its own time", []string{"0 see a/1", "0-5 contact", "5 see b/1", "6-10 contact"}, 10, "b trusted=true"},

		// Contact.
		{"contact is trusted for a while without proof", []string{"0 see a/1", "0-2 contact"}, 6, "a trusted=true"},
		{"contact without proof is not trusted for long", []string{"0 see a/1", "0-2 contact"}, 7, "a trusted=false"},
		{"no node dies without contact", []string{"0 see a/1", "0-9 contact", "10-99 lost"}, 99, "a trusted=false"},
		{"no node dies without contact, even if the loss is not reported", []string{"0 see a/1", "0-9 contact"}, 99, "a trusted=false"},
		{"after a loss of contact, every node gets a full duration",
			[]string{"0 see a/1", "0-9 contact", "10-99 lost", "100-109 contact"}, 109, "a trusted=true"},
		{"after a loss of contact, no node gets more than one duration",
			[]string{"0 see a/1", "0-9 contact", "10-99 lost", "100-110 contact"}, 110, " trusted=true"},
		{"every node gets a full duration, even if the loss was not reported",
			[]string{"0 see a/1", "0-9 contact", "100-109 contact"}, 109, "a trusted=true"},
		{"a short loss counts if it is reported", []string{"0 see a/1", "0-8 contact", "9 lost", "10-19 contact"}, 19, "a trusted=true"},
		{"a short loss without a report is not noticed", []string{"0 see a/1", "0-8 contact", "10 contact"}, 10, " trusted=true"},
		{"a node that was dead before the loss stays dead", []string{"0 see a/1", "0-10 contact", "11-99 lost", "100-101 contact"}, 101, " trusted=true"},
		{"a change during the loss counts from its observation",
			[]string{"0 see a/1", "0-5 contact", "6-17 lost", "19 see a/2", "18-28 contact"}, 28, "a trusted=true"},
		{"a reported loss takes effect at once", []string{"0 see a/1", "0-5 contact", "5 lost"}, 5, "a trusted=false"},
		{"a proof older than the loss does not end the loss", []string{"0 see a/1", "0-5 contact", "8 lost", "7 contact"}, 8, "a trusted=false"},
		{"a proof older than the loss does not hide the loss later",
			[]string{"0 see a/1", "0-5 contact", "8 lost", "7 contact", "9-18 contact"}, 18, "a trusted=true"},
		{"a proof out of order adds nothing", []string{"0 see a/1", "0-10 contact", "3 contact"}, 10, " trusted=true"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := show(livenessAfter(t, tt.steps...), at(tt.now)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestNextIsTheEarliestExpiry(t *testing.T) {
	tests := []struct {
		name   string
		steps  []string
		want   int
		wantNo bool
	}{
		{name: "nobody was seen", steps: []string{"0 contact"}, wantNo: true},
		{name: "the node that was silent longest", steps: []string{"0 contact", "1 see a/1", "2 see b/1", "3 see a/2"}, want: 12},
		{name: "not a dead node", steps: []string{"0 see a/1", "0-10 contact", "10 see b/1"}, want: 20},
		{name: "nobody is alive", steps: []string{"0 see a/1", "0-10 contact"}, wantNo: true},
		{name: "a full duration after a loss of contact", steps: []string{"0 see a/1", "0 contact", "50 contact"}, want: 60},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := livenessAfter(t, tt.steps...).Next()
			if ok == tt.wantNo || ok && !got.Equal(at(tt.want)) {
				t.Errorf("got %s, %t; want %s", got, ok, at(tt.want))
			}
		})
	}
}

func TestOnlyObservedRenewalsCount(t *testing.T) {
	tests := []struct {
		name  string
		steps []string
		want  int // 0: never
	}{
		{"the first observation is no renewal", []string{"0 see a/1", "0-9 contact"}, 0},
		{"a second observation of one version is no renewal", []string{"0 see a/1", "0-9 contact", "9 see a/1"}, 0},
		{"a change is", []string{"0 see a/1", "0-9 contact", "9 see a/2"}, 9},
		{"the last one", []string{"0 see a/1", "0-9 contact", "8 see a/2", "9 see a/3"}, 9},
		{"a change that may be old is no renewal", []string{"0 see a/1", "0-5 contact", "60 see a/2", "60 contact"}, 0},
		{"a change during a loss of contact is no renewal", []string{"0 see a/1", "0-5 contact", "6 lost", "7 see a/2", "7 contact"}, 0},
		{"the next change after that is a renewal", []string{"0 see a/1", "0-5 contact", "60 see a/2", "60 contact", "63 see a/3"}, 63},
		{"a forgotten node has no renewal", []string{"0 see a/1", "0-9 contact", "9 see a/2", "9 forget a"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := livenessAfter(t, tt.steps...).Renewed("a")
			if want := at(tt.want); tt.want == 0 != got.IsZero() || tt.want > 0 && !got.Equal(want) {
				t.Errorf("got %s, want second %d", got, tt.want)
			}
		})
	}
}

func TestLeaseDurationIsRead(t *testing.T) {
	l := election.NewLiveness(tolerance)
	l.Observe("slow", "1", 30*time.Second, at(0))
	l.Observe("quick", "1", 5*time.Second, at(0))
	for second := range 20 {
		l.Contact(at(second))
	}
	if got := show(l, at(20)); got != "slow trusted=true" {
		t.Errorf("got %q", got)
	}
	l.Observe("slow", "2", 5*time.Second, at(20))
	for second := 20; second <= 25; second++ {
		l.Contact(at(second))
	}
	if got := show(l, at(25)); got != " trusted=true" {
		t.Errorf("got %q", got)
	}
}

// world has a few agents that renew their Leases every three seconds, or later if the API server is
// away. The API server and this node's connection to it fail and recover.
type world struct {
	versions map[string]int
	renewed  map[string]int  // the second of the last renewal
	died     map[string]int  // the second from which an agent does nothing
	server   func(int) bool  // whether the API server is there
	reach    func(int) bool  // whether this node can reach it
	skew     map[string]int  // the errors of their clocks
	seen     map[string]bool // by this node
}

func (w world) alive(node string, second int) bool {
	died, mortal := w.died[node]
	return !mortal || second < died
}

func (w world) step(l *election.Liveness, second int) {
	for node := range w.versions {
		if w.server(second) && w.alive(node, second) && second-w.renewed[node] >= 3 {
			w.versions[node], w.renewed[node] = second+w.skew[node], second
		}
	}
	if !w.server(second) || !w.reach(second) {
		return
	}
	for node, version := range w.versions {
		l.Observe(node, fmt.Sprint(version), lease, at(second))
		w.seen[node] = true
	}
	l.Contact(at(second))
}

// spells draws the intervals, in seconds, in which something is away.
func spells(t *rapid.T, what string) func(second int) bool {
	type spell struct{ from, to int }
	var all []spell
	for range rapid.IntRange(0, 3).Draw(t, what) {
		from := rapid.IntRange(1, 120).Draw(t, "from")
		all = append(all, spell{from, from + rapid.IntRange(0, 40).Draw(t, "for")})
	}
	return func(second int) bool {
		return !slices.ContainsFunc(all, func(s spell) bool { return s.from <= second && second < s.to })
	}
}

// This holds for any outages and any clocks: a live node is never missing. A dead node is missing
// after one duration of contact without a renewal. Without contact, no node disappears.
func TestLivingStayAndDeadGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{
			versions: map[string]int{}, renewed: map[string]int{}, died: map[string]int{}, skew: map[string]int{},
			seen: map[string]bool{}, server: spells(t, "outages"), reach: spells(t, "cuts"),
		}
		for _, node := range []string{"a", "b", "c", "d"} {
			w.versions[node], w.renewed[node] = 0, rapid.IntRange(-3, 0).Draw(t, "phase")
			w.skew[node] = rapid.IntRange(-10_000, 10_000).Draw(t, "skew")
			if rapid.Bool().Draw(t, "mortal") {
				w.died[node] = rapid.IntRange(-100, 160).Draw(t, "died")
			}
		}
		l := election.NewLiveness(tolerance)
		var before []string
		unbroken := 0 // the length of the present contact
		for second := range 200 {
			w.step(l, second)
			if w.server(second) && w.reach(second) {
				unbroken++
			} else {
				unbroken = 0
			}
			live, trusted := l.Live(at(second))
			for node := range w.versions {
				in := slices.Contains(live, node)
				switch {
				case w.alive(node, second) && w.seen[node] && !in:
					t.Fatalf("second %d: %s is alive, but missing", second, node)
				case !w.alive(node, second-11) && unbroken > 11 && in:
					t.Fatalf("second %d: %s is dead, but not missing", second, node)
				}
			}
			if !trusted && !slices.Equal(before, live) {
				t.Fatalf("second %d: %v became %v without contact", second, before, live)
			}
			if unbroken > 0 && !trusted {
				t.Fatalf("second %d: in contact, but not trusted", second)
			}
			before = live
		}
	})
}

func BenchmarkLiveOfAThousand(b *testing.B) {
	l := election.NewLiveness(tolerance)
	for i := range 1000 {
		l.Observe(fmt.Sprintf("node-%04d", i), "1", lease, at(0))
	}
	l.Contact(at(1))
	b.ReportAllocs()
	for b.Loop() {
		l.Live(at(2))
	}
}
