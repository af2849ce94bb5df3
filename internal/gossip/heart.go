package gossip

import (
	"maps"
	"net/netip"
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
	// told is how often we have said that it is, and again when to say so next.
	told  int
	again time.Time
}

// post is a word and where to send it.
type post struct {
	to   netip.AddrPort
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
	maps.DeleteFunc(h.windows, func(m mark, _ *window) bool {
		_, seated := h.seats[m]
		return !seated
	})
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

// hear notes what was said. Whatever one says, it lives.
func (h *heart) hear(w word, p *pulse) {
	from, known := h.seats[w.from]
	if !known || w.from == h.self {
		return
	}
	if h.windows[w.from] == nil {
		h.windows[w.from] = &window{}
	}
	if !h.windows[w.from].first(w.number) {
		h.counts.replayed.Add(1)
		return
	}
	h.beat(from, p)
	about, known := h.seats[w.about]
	v := h.watched[w.about]
	switch {
	case !known || w.about == w.from:
	case !w.silent:
		h.vouched(about, v, p)
	case w.about == h.self:
		if h.pleas == 0 {
			h.counts.accused.Add(1)
		}
		h.pleas = repeats
	case v != nil && v.missed == 0:
		// We hear it.
		p.posts = append(p.posts, post{from.address, h.say(false, w.about)})
	default:
		p.silent = append(p.silent, about.id)
	}
}

// beat notes that one is heard. If that is news, the others have to know.
func (h *heart) beat(s seat, p *pulse) {
	p.alive = append(p.alive, s.id)
	v := h.watched[s.mark]
	if v == nil {
		return
	}
	back := !s.there || v.told > 0
	*v = vital{heard: true, patience: forbearance}
	if back {
		h.tellAll(false, s.mark, p)
	}
}

// vouched notes that others hear one. If we do not, that is no news the next time.
func (h *heart) vouched(s seat, v *vital, p *pulse) {
	p.alive = append(p.alive, s.id)
	if v != nil && v.missed >= v.patience {
		*v = vital{patience: min(2*v.patience, forbearanceMax)}
	}
}

// look is made once for each Beat, after all that has come was heard: we beat, and
// notice who did not.
func (h *heart) look(now time.Time, p *pulse) {
	for _, s := range h.targets {
		p.posts = append(p.posts, post{s.address, h.say(false, h.self)})
	}
	for m, f := range h.former {
		if now.After(f.until) {
			delete(h.former, m)
			continue
		}
		p.posts = append(p.posts, post{f.seat.address, h.say(false, h.self)})
	}
	if h.pleas > 0 {
		h.pleas--
		// The next one may come too late, so this one goes twice.
		h.tellAll(false, h.self, p)
		h.tellAll(false, h.self, p)
	}
	for m, v := range h.watched {
		if v.heard {
			v.heard = false
			continue
		}
		v.missed++
		if v.missed >= v.patience && (v.told < repeats || !now.Before(v.again)) {
			if v.told == 0 {
				h.counts.missed.Add(1)
			}
			v.told++
			v.again = now.Add(renewal)
			p.silent = append(p.silent, h.seats[m].id)
			h.tellAll(true, m, p)
		}
	}
}

// tellAll says to everybody how it is with one, and to that one itself.
func (h *heart) tellAll(silent bool, about mark, p *pulse) {
	w := h.say(silent, about)
	for _, s := range h.circle {
		if s.mark != h.self {
			p.posts = append(p.posts, post{s.address, w})
		}
	}
}

func (h *heart) say(silent bool, about mark) word {
	h.number++
	return word{silent: silent, from: h.self, about: about, number: h.number}
}
