package segment

import (
	"testing"
	"time"
)

var (
	noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	a, b = MAC{1}, MAC{2}
)

func at(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }

// storyOf returns the story of questions that were sent every 20 ms and got these answers.
func storyOf(answers ...[]MAC) *Story {
	s := &Story{}
	for i, macs := range answers {
		s.asked(at(20 * i))
		for _, m := range macs {
			s.answered(at(20*i+1), m)
			s.answered(at(20*i+2), m)
		}
	}
	return s
}

func TestStoryMeasuresSilenceAndDoubleAnswers(t *testing.T) {
	one, other, both, none := []MAC{a}, []MAC{b}, []MAC{b, a}, []MAC(nil)
	for _, c := range []struct {
		name             string
		story            *Story
		silence, twofold time.Duration
		alone            string
	}{
		{"no question", storyOf(), 0, 0, ""},
		{"one station all the time", storyOf(one, one, one), 0, 0, "01:00:00:00:00:00"},
		{"the last question may still get an answer", storyOf(one, one, none), 0, 0, "01:00:00:00:00:00"},
		{"one lost answer", storyOf(one, none, one, one), 20 * time.Millisecond, 0, "01:00:00:00:00:00"},
		{"a gap", storyOf(one, none, none, none, other, other), 60 * time.Millisecond, 0, ""},
		{"a gap that lasts", storyOf(one, none, none, none), 40 * time.Millisecond, 0, ""},
		{"both stations for a moment", storyOf(one, both, both, other, other), 0, 40 * time.Millisecond, ""},
		{"both stations until the end", storyOf(one, both, both, both), 0, 40 * time.Millisecond, ""},
		{"no answer at all", storyOf(none, none, none), 40 * time.Millisecond, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.story.Silence(); got != c.silence {
				t.Errorf("silence %v, want %v", got, c.silence)
			}
			if got := c.story.Twofold(); got != c.twofold {
				t.Errorf("twofold %v, want %v", got, c.twofold)
			}
			alone := ""
			if mac, ok := c.story.Alone(noon); ok {
				alone = mac.String()
			}
			if alone != c.alone {
				t.Errorf("alone %q, want %q", alone, c.alone)
			}
		})
	}
}

func TestAPauseOfTheStationIsNoSilence(t *testing.T) {
	s := &Story{}
	for _, ms := range []int{0, 20, 3020, 3040, 3060} {
		s.asked(at(ms))
		if ms != 20 {
			s.answered(at(ms+1), a)
		}
	}
	if got := s.Silence(); got != 2*every {
		t.Errorf("after one unanswered question and 3 s without questions, the silence is %v, want %v", got, 2*every)
	}
}

func TestStoryCountsReturns(t *testing.T) {
	one, other, both := []MAC{a}, []MAC{b}, []MAC{a, b}
	for _, c := range []struct {
		story *Story
		want  int
	}{
		{storyOf(one, both, other, nil, other), 0},
		{storyOf(one, both, one), 0},
		{storyOf(one, other, one, other), 2},
	} {
		if got := c.story.Returns(); got != c.want {
			t.Errorf("%d returns, want %d in\n%s", got, c.want, c.story)
		}
	}
}

func TestALateAnswerBelongsToTheEarlierQuestion(t *testing.T) {
	s := storyOf(nil, nil)
	s.answered(at(10), a)
	if len(s.Rounds[0].MACs) != 1 || len(s.Rounds[1].MACs) != 0 {
		t.Errorf("the rounds with an answer after 10 ms are %v", s.Rounds)
	}
}

func TestStoryShowsTraffic(t *testing.T) {
	s := storyOf()
	for i, m := range []MAC{a, a, b, a, b, b} {
		s.sent(at(i), m)
	}
	const want = "  12:00:00.000 for      1 ms: 2 packets from 01:00:00:00:00:00\n" +
		"  12:00:00.002 for      0 ms: 1 packets from 02:00:00:00:00:00\n" +
		"  12:00:00.003 for      0 ms: 1 packets from 01:00:00:00:00:00\n" +
		"  12:00:00.004 for      1 ms: 2 packets from 02:00:00:00:00:00\n"
	if got := s.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
