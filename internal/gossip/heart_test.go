package gossip

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// patient is a heart whose time is counted in looks.
type patient struct {
	*heart
	t      *testing.T
	tally  counters
	now    time.Time
	number map[mark]uint64
	p      pulse
}

// newPatient is the heart of node a in a circle of nodes of one letter.
func newPatient(t *testing.T, nodes string) *patient {
	p := &patient{t: t, now: epoch, number: map[mark]uint64{}}
	p.heart = newHeart(identity{"a", 1}, (Timing{}).withDefaults(), &p.tally)
	p.self = 'a'
	p.sits(nodes)
	return p
}

func (p *patient) sits(nodes string) {
	p.sit(around(nodes), p.now)
}

// says has one say of others how it is with them: "x" that it lives, "x!" that it
// is silent.
func (p *patient) says(from string, about ...string) {
	for _, a := range about {
		p.number[mark(from[0])]++
		name, silent := strings.CutSuffix(a, "!")
		p.hear(word{silent: silent, from: mark(from[0]), about: mark(name[0]), number: p.number[mark(from[0])]}, &p.p)
	}
}

// looks makes looks before each of which those nodes beat, and returns what was said
// and believed at the last one.
func (p *patient) looks(n int, beating string) string {
	for range n - 1 {
		p.one(beating)
	}
	return p.one(beating)
}

func (p *patient) one(beating string) string {
	for _, b := range strings.Fields(beating) {
		p.says(b, b)
	}
	p.now = p.now.Add(p.timing.Beat)
	p.look(p.now, &p.p)
	var all []string
	for _, post := range p.p.posts {
		what := "lives"
		if post.word.silent {
			what = "silent"
		}
		all = append(all, fmt.Sprintf("%c: %c %s", post.to.mark, post.word.about, what))
	}
	for _, id := range p.p.silent {
		all = append(all, "missed "+id.node)
	}
	p.p = pulse{}
	return strings.Join(all, ", ")
}

// introduced is how many looks nobody is missed who may not know of us.
func (p *patient) introduced() int { return int(introduction / p.timing.Beat) }

func TestAHeartBeatsForItsWatchers(t *testing.T) {
	p := newPatient(t, "a b c d e")
	want(t, "five", p.looks(1, ""), "b: a lives, c: a lives, d: a lives")
	p.sits("a b? c d e")
	want(t, "one is gone", p.looks(1, ""), "b: a lives, c: a lives, d: a lives, e: a lives")
	p.sits("a b c d e")
	want(t, "it is back, but e may not know", p.looks(1, ""), "b: a lives, c: a lives, d: a lives, e: a lives")
	want(t, "now it does", p.looks(p.introduced()+1, "b c d e"), "b: a lives, c: a lives, d: a lives")
}

func TestWhoFallsSilentIsMissedByItsWatchers(t *testing.T) {
	const beats = "b: a lives, c: a lives, d: a lives"
	const alarm = "b: e silent, c: e silent, d: e silent, e: e silent"
	p := newPatient(t, "a b c d e")
	want(t, "all beat", p.looks(100, "c d e"), beats)
	want(t, "not for a while", p.looks(forbearance-1, "c d"), beats)
	for range repeats {
		want(t, "then", p.looks(1, "c d"), beats+", "+alarm+", missed e")
	}
	want(t, "once said it is said", p.looks(1, "c d"), beats)
	p.sits("a b c d e?")
	again := int(renewal / p.timing.Beat)
	want(t, "not for a while", p.looks(again-1, "c d"), beats)
	want(t, "and again", p.looks(1, "c d"), beats+", "+alarm+", missed e")
	const ours = ", b: a lives, c: a lives, d: a lives, e: a lives"
	want(t, "when it is back all are told, and that we are here", p.looks(1, "c d e"), "b: e lives, c: e lives, d: e lives, e: e lives, "+beats+ours+ours)
	p.sits("a b c d e")
	want(t, "that is all", p.looks(1, "c d e"), beats)
}

func TestWhoMayNotKnowItsWatchersIsMissedLater(t *testing.T) {
	p := newPatient(t, "a b c")
	const beats = "b: a lives, c: a lives"
	want(t, "nobody has beaten", p.looks(p.introduced()+forbearance-1, ""), beats)
	if got := p.looks(1, ""); !strings.Contains(got, "missed b") || !strings.Contains(got, "missed c") {
		t.Errorf("nobody is missed, but %s", got)
	}
}

func TestWhoseWatchersAreGoneIsWatchedByOthersSoon(t *testing.T) {
	p := newPatient(t, "a b c d e f")
	p.looks(100, "d e f")
	p.sits("a b c d? e f")
	if got := p.looks(2*forbearance, "e f"); !strings.Contains(got, "c silent") {
		t.Errorf("c, which nobody hears, is not missed: %s", got)
	}
}

func TestTheAccusedContradicts(t *testing.T) {
	p := newPatient(t, "a b c d e")
	const beats = "b: a lives, c: a lives, d: a lives"
	p.looks(10, "c d e")
	p.says("d", "a!")
	const all = ", b: a lives, c: a lives, d: a lives, e: a lives"
	for range repeats {
		want(t, "to everybody, twice", p.looks(1, "c d e"), beats+all+all)
	}
	want(t, "and then no more", p.looks(1, "c d e"), beats)
}

func TestWhoHearsTheAccusedContradictsToo(t *testing.T) {
	p := newPatient(t, "a b c d e")
	const beats = "b: a lives, c: a lives, d: a lives"
	p.looks(10, "c d e")
	p.says("d", "e!")
	p.says("b", "e!")
	want(t, "one that is watched, once to everybody", p.looks(1, "c d e"), "b: e lives, c: e lives, d: e lives, e: e lives, "+beats)
	p.says("d", "b!")
	want(t, "one that is not", p.looks(1, "c d e"), beats+", missed b")
	p.looks(1, "c d")
	p.says("d", "e!")
	want(t, "one that is not heard here either", p.looks(1, "c d"), beats+", missed e")
}

func TestOneThatWeDoNotKnowMayAccuseUs(t *testing.T) {
	p := newPatient(t, "a b c d e")
	p.looks(10, "c d e")
	p.says("x", "a!", "e!")
	if got := p.looks(1, "c d e"); !strings.Contains(got, "b: a lives, c: a lives, d: a lives, e: a lives") || strings.Contains(got, "missed") {
		t.Errorf("we say %s", got)
	}
}

func TestTheDeafAccuseNobody(t *testing.T) {
	p := newPatient(t, "a b c d e")
	const beats = "b: a lives, c: a lives, d: a lives"
	p.looks(10, "c d e")
	p.looks(forbearance-1, "")
	got := p.looks(1, "")
	if strings.Contains(got, "silent") {
		t.Errorf("they say %s", got)
	}
	for _, name := range []string{"c", "d", "e"} {
		if !strings.Contains(got, "missed "+name) {
			t.Errorf("%s is not missed: %s", name, got)
		}
	}
	p.looks(2*repeats, "c d e")
	want(t, "when they hear again they are as before", p.looks(1, "c d e"), beats)
	if got := p.looks(forbearance, "c d"); !strings.Contains(got, "e silent") {
		t.Errorf("nobody is accused: %s", got)
	}
}

func TestWhomOnlyOthersHearIsMissedEverMoreRarely(t *testing.T) {
	p := newPatient(t, "a b c d e")
	p.looks(10, "c d e")
	alarms := 0
	for range 2000 {
		if strings.Contains(p.looks(1, "c d"), "e silent") {
			alarms++
			p.says("d", "e")
		}
	}
	if alarms < 5 || alarms > 30 {
		t.Errorf("%d alarms in two minutes", alarms)
	}
	p.looks(10, "c d e")
	if got := p.looks(forbearance, "c d"); !strings.Contains(got, "e silent") {
		t.Errorf("once it was heard again, it is not missed as before: %s", got)
	}
}

func TestAWordCountsOnceAndOfMembersOnly(t *testing.T) {
	p := newPatient(t, "a b c d e")
	p.looks(10, "c d e")
	replay := word{from: 'e', about: 'e', number: p.number['e']}
	for range forbearance - 1 {
		p.hear(replay, &p.p)
		p.looks(1, "c d")
	}
	p.hear(replay, &p.p)
	if got := p.looks(1, "c d"); !strings.Contains(got, "e silent") {
		t.Errorf("what was recorded keeps one alive: %s", got)
	}
	if p.counts.replayed.Load() != forbearance {
		t.Error("it is not counted")
	}
	p.says("x", "a!", "c!", "x")
	p.says("c", "x!")
	p.says("a", "d!") // our own, sent back
	if got := p.looks(1, "c d"); strings.Contains(got, "missed c") || strings.Contains(got, "missed d") || strings.Contains(got, "x") {
		t.Errorf("who is no member is believed: %s", got)
	}
	// Packets of one look may come in any order.
	p.number['e'] += 10
	p.hear(word{from: 'e', about: 'e', number: p.number['e']}, &p.p)
	p.p = pulse{}
	p.hear(word{from: 'e', about: 'e', number: p.number['e'] - 5}, &p.p)
	if len(p.p.alive) != 1 {
		t.Error("a word that was overtaken does not count")
	}
}

func want(t *testing.T, when, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n\tgot  %s\n\twant %s", when, got, want)
	}
}
