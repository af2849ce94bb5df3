package segment

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Story has the observations of a station about one address, in order.
type Story struct {
	Rounds  []Round
	Traffic []Run
	// Name returns a name for the owner of a hardware address.
	Name func(MAC) string
}

// Round is a question and the stations that answered it.
type Round struct {
	At   time.Time
	MACs []MAC // sorted, without duplicates
}

// Run is uninterrupted traffic from one hardware address.
type Run struct {
	MAC         MAC
	First, Last time.Time
	Frames      int
}

func (s *Story) asked(at time.Time) { s.Rounds = append(s.Rounds, Round{At: at}) }

// answered records an answer to the last question before it.
func (s *Story) answered(at time.Time, mac MAC) {
	i := len(s.Rounds) - 1
	for i > 0 && s.Rounds[i].At.After(at) {
		i--
	}
	if i < 0 {
		return
	}
	r := &s.Rounds[i]
	at1, found := slices.BinarySearchFunc(r.MACs, mac, func(a, b MAC) int { return slices.Compare(a[:], b[:]) })
	if !found {
		r.MACs = slices.Insert(r.MACs, at1, mac)
	}
}

func (s *Story) sent(at time.Time, mac MAC) {
	if n := len(s.Traffic); n > 0 && s.Traffic[n-1].MAC == mac {
		s.Traffic[n-1].Last, s.Traffic[n-1].Frames = at, s.Traffic[n-1].Frames+1
		return
	}
	s.Traffic = append(s.Traffic, Run{mac, at, at, 1})
}

// Since returns the part of the story since a time.
func (s Story) Since(from time.Time) Story {
	i, _ := slices.BinarySearchFunc(s.Rounds, from, func(r Round, t time.Time) int { return r.At.Compare(t) })
	j, _ := slices.BinarySearchFunc(s.Traffic, from, func(r Run, t time.Time) int { return r.Last.Compare(t) })
	return Story{s.Rounds[i:], s.Traffic[j:], s.Name}
}

// Silence returns the longest time without an answer.
func (s Story) Silence() time.Duration {
	return s.longest(func(r Round) bool { return len(r.MACs) == 0 })
}

// Twofold returns the longest time with several answers.
func (s Story) Twofold() time.Duration {
	return s.longest(func(r Round) bool { return len(r.MACs) > 1 })
}

// longest returns the longest time from a question of a kind to the next question that is not of
// this kind, or to the last question. It ignores the last question, because that may still get an
// answer. It also ignores the time in which the station did not run and asked nothing.
func (s Story) longest(kind func(Round) bool) (longest time.Duration) {
	var lasts time.Duration
	for i := range s.Rounds[:max(0, len(s.Rounds)-1)] {
		if !kind(s.Rounds[i]) {
			lasts = 0
			continue
		}
		lasts += min(s.Rounds[i+1].At.Sub(s.Rounds[i].At), 2*every)
		longest = max(longest, lasts)
	}
	return longest
}

// Alone returns the station that alone answered every question since a time. ok is false if there
// is none. Frames get lost, so a single question without an answer is ignored if the questions
// before and after it were answered.
func (s Story) Alone(from time.Time) (mac MAC, ok bool) {
	rounds := s.Since(from).Rounds
	if len(rounds) > 0 {
		rounds = rounds[:len(rounds)-1]
	}
	missed := 0
	for _, r := range rounds {
		switch {
		case len(r.MACs) == 0 && missed == 0:
			missed++
			continue
		case len(r.MACs) != 1, ok && r.MACs[0] != mac:
			return mac, false
		}
		mac, ok, missed = r.MACs[0], true, 0
	}
	return mac, ok
}

// Returns returns how often a station answered alone again after another station had done so. The
// answers are more reliable than the traffic, because a server repeats the data of a broken
// connection along the old path.
func (s Story) Returns() (n int) {
	var now MAC
	before := map[MAC]bool{}
	for _, r := range s.Rounds {
		if len(r.MACs) != 1 || r.MACs[0] == now {
			continue
		}
		now = r.MACs[0]
		if before[now] {
			n++
		}
		before[now] = true
	}
	return n
}

// String shows which stations answered when, and the source of the traffic.
func (s Story) String() string {
	var b strings.Builder
	for i := 0; i < len(s.Rounds); {
		from := s.Rounds[i]
		for i < len(s.Rounds) && slices.Equal(s.Rounds[i].MACs, from.MACs) {
			i++
		}
		until := s.Rounds[len(s.Rounds)-1].At
		if i < len(s.Rounds) {
			until = s.Rounds[i].At
		}
		fmt.Fprintf(&b, "  %s for %6d ms: %s\n", stamp(from.At), until.Sub(from.At).Milliseconds(), s.names(from.MACs))
	}
	for i, r := range s.Traffic {
		if i == maxRuns {
			fmt.Fprintf(&b, "  traffic changed its source %d times more\n", len(s.Traffic)-i)
			break
		}
		fmt.Fprintf(&b, "  %s for %6d ms: %d packets from %s\n", stamp(r.First), r.Last.Sub(r.First).Milliseconds(), r.Frames, s.names([]MAC{r.MAC}))
	}
	return b.String()
}

// maxRuns limits how much of the traffic String shows.
const maxRuns = 20

func stamp(t time.Time) string { return t.UTC().Format("15:04:05.000") }

func (s Story) names(macs []MAC) string {
	if len(macs) == 0 {
		return "nobody"
	}
	var names []string
	for _, m := range macs {
		if s.Name == nil {
			names = append(names, m.String())
			continue
		}
		names = append(names, s.Name(m))
	}
	return strings.Join(names, " and ")
}
