package gossip

import (
	"maps"
	"time"
)

// heart is what one process knows of the beats of others and owes them of its own.
// It belongs to one goroutine, and touches nothing but its counts: what is to be sent
// and what is to be believed is returned.
//
// It counts time in its own looks at what has come. So a process that stands still
// does not take its own silence for that of others.
type heart struct {
	timing Timing
	counts *counters
	self   mark
	number uint64
	circle circle
	seats  map[mark]seat
	// targets are those who watch us, and former those who did until lately:
	// they may not know yet that others do.
	targets []seat
	former  map[mark]farewell
	watched map[mark]*vital
	// windows are of the numbers of the words of each.
	windows map[mark]*window
	// pleas is how often we are still to say to everybody that we live.
	pleas int
}

// farewell is for how long a former watcher is still sent beats.
type farewell struct {
	seat  seat
	until time.Time
}

// vital is what is known of one whom we watch.
type vital struct {
	// heard says that it was since the last look. Missed is for how many looks
	// it was not, less than nothing while it may not know of us, and patience
	// after how many it is silent.
	heard            bool
	missed, patience int
	// vouched says that since the last look we have told others that we hear it.
	vouched bool
	// told is how often we have said that it is, and again when to say so next.
	told  int
	again time.Time
}

// post is a word and who is to get it.
type post struct {
	to   seat
	word word
}

// pulse is what a heart has to say.
type pulse struct {
	posts []post
	// silent are those who were not heard, by us or others, and alive those who
	// were.
	silent, alive []identity
}

const (
	// forbearance is how many looks without a beat are silence.
	forbearance = 3
	// forbearanceMax is after how many one is silent whom others hear and we do
	// not.
	forbearanceMax = 200
	// repeats is how often what must not be lost is said.
	repeats = 3
	// introduction is how long who is new to us may not know that we watch it,
	// and how long who does not watch us any more may not know it.
	introduction = 2 * time.Second
	// renewal is how often we say again that one is silent whom the library
	// still takes for alive.
	renewal = 2 * time.Second
)

func newHeart(self identity, t Timing, counts *counters) *heart {
	return &heart{
		timing: t, counts: counts, self: self.mark(), former: map[mark]farewell{}, watched: map[mark]*vital{},
		seats: map[mark]seat{}, windows: map[mark]*window{},
	}
}

// sit notes who is in the circle now. Where somebody came, it takes a while until
// others know; that somebody is gone they learn when we do.
func (h *heart) sit(c circle, now time.Time) {
	seats, grace := make(map[mark]seat, len(c)), forbearance
	for _, s := range c {
		seats[s.mark] = s
		if _, ok := h.seats[s.mark]; !ok {
			grace = int(introduction / h.timing.Beat)
		}
	}
	h.circle, h.seats = c, seats
	before := h.targets
	h.targets = c.watching(h.self)
	for _, s := range before {
		h.former[s.mark] = farewell{s, now.Add(introduction)}
	}
	for _, s := range h.targets {
		delete(h.former, s.mark)
	}
	watched := make(map[mark]*vital, watchers)
	for _, s := range c.watched(h.self) {
		v := h.watched[s.mark]
		if v == nil {
			v = &vital{missed: -grace, patience: forbearance}
		}
		watched[s.mark] = v
	}
	h.watched = watched
}

// hear notes what was said. Whatever one says, it lives. Who accuses us may be one
// whom we do not know yet: others do.
func (h *heart) hear(w word, p *pulse) {
	if w.from == h.self || !h.first(w) {
		return
	}
	if w.silent && w.about == h.self && h.pleas == 0 {
		h.counts.accused.Add(1)
		h.pleas = repeats
	}
	from, known := h.seats[w.from]
	if !known {
		return
	}
	h.beat(from, p)
	about, known := h.seats[w.about]
	v := h.watched[w.about]
	switch {
	case !known || w.about == w.from || w.about == h.self:
	case !w.silent:
		h.vouched(about, v, p)
	case v != nil && v.missed == 0:
		// We hear it. Perhaps only we do: nothing may get from the accuser to it.
		if !v.vouched {
			v.vouched = true
			h.tellAll(false, w.about, p)
		}
	default:
		p.silent = append(p.silent, about.id)
	}
}

// first says whether a word comes for the first time.
func (h *heart) first(w word) bool {
	if h.windows[w.from] == nil {
		if len(h.windows) >= senders {
			maps.DeleteFunc(h.windows, func(m mark, _ *window) bool { return h.seats[m].mark != m })
		}
		h.windows[w.from] = &window{}
	}
	if !h.windows[w.from].first(w.number) {
		h.counts.replayed.Add(1)
		return false
	}
	return true
}

// beat notes that one is heard. If that is news, the others have to know.
func (h *heart) beat(s seat, p *pulse) {
	p.alive = append(p.alive, s.id)
	v := h.watched[s.mark]
	if v == nil {
		return
	}
	back := !s.there || v.told > 0
	*v = vital{heard: true, patience: forbearance, vouched: v.vouched}
	if !back {
		return
	}
	h.tellAll(false, s.mark, p)
	if !s.there {
		// What kept it from us kept us from it, and perhaps from others there.
		h.pleas = max(h.pleas, 1)
		s.there = true
		h.seats[s.mark] = s
	}
}

// vouched notes that others hear one. If we do not, that is no news the next time.
func (h *heart) vouched(s seat, v *vital, p *pulse) {
	p.alive = append(p.alive, s.id)
	if v != nil && v.missed >= v.patience {
		*v = vital{missed: 1, patience: min(2*v.patience, forbearanceMax)}
	}
}

// look is made once for each Beat, after all that has come was heard: we beat, and
// notice who did not.
func (h *heart) look(now time.Time, p *pulse) {
	for _, s := range h.targets {
		p.posts = append(p.posts, post{s, h.say(false, h.self)})
	}
	for m, f := range h.former {
		if now.After(f.until) {
			delete(h.former, m)
			continue
		}
		p.posts = append(p.posts, post{f.seat, h.say(false, h.self)})
	}
	if h.pleas > 0 {
		h.pleas--
		// The next one may come too late, so this one goes twice.
		h.tellAll(false, h.self, p)
		h.tellAll(false, h.self, p)
	}
	for _, v := range h.watched {
		if v.heard {
			v.missed = 0
		} else {
			v.missed++
		}
		v.heard, v.vouched = false, false
	}
	h.miss(now, p)
}

// miss notices who is silent, and tells the others. When all are at once, that is
// more likely our own fault: then there is nobody to tell, and nobody is heard of whom
// we do not watch either.
func (h *heart) miss(now time.Time, p *pulse) {
	deaf, missed := h.deaf(), len(p.silent)
	for m, v := range h.watched {
		if v.missed < v.patience || v.told >= repeats && now.Before(v.again) {
			continue
		}
		if v.told == 0 {
			h.counts.missed.Add(1)
		}
		v.told++
		v.again = now.Add(renewal)
		p.silent = append(p.silent, h.seats[m].id)
		if !deaf {
			h.tellAll(true, m, p)
		}
	}
	if deaf && len(p.silent) > missed && len(h.watched) >= min(2*watchers, len(h.circle)-1) {
		for m, s := range h.seats {
			if m != h.self && h.watched[m] == nil {
				p.silent = append(p.silent, s.id)
			}
		}
	}
}

// deaf says that of as many as should be watched none is heard.
func (h *heart) deaf() bool {
	for _, v := range h.watched {
		if v.missed >= 0 && v.missed < forbearance {
			return false
		}
	}
	return len(h.watched) >= watchers
}

// tellAll says to everybody who is there how it is with one, and to that one itself. That
// we live ourselves it says to those too who are believed gone: perhaps they believe that
// we are. It begins with the next one: should a burst lose its end, that is another end for
// everybody who tells.
func (h *heart) tellAll(silent bool, about mark, p *pulse) {
	w := h.say(silent, about)
	at, _ := h.circle.place(h.self)
	for i := range h.circle {
		s := h.seats[h.circle[(at+i)%len(h.circle)].mark]
		if s.mark != h.self && (s.there || s.mark == about || h.self == about) {
			p.posts = append(p.posts, post{s, w})
		}
	}
}

func (h *heart) say(silent bool, about mark) word {
	h.number++
	return word{silent: silent, from: h.self, about: about, number: h.number}
}
