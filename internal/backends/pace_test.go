package backends

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/ipam"
)

// scripted is a backend and a ledger. A claim with the key "bad" fails.
type scripted struct {
	Ledger
	began time.Time

	mu      sync.Mutex
	queue   []ipam.Claim
	claimed []string
}

// want queues a claim.
func (s *scripted) want(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, ipam.Claim{Key: key})
}

func (s *scripted) Claim(_ context.Context, claims []ipam.Claim) []ipam.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := make([]ipam.Answer, len(claims))
	for i, c := range claims {
		s.claimed = append(s.claimed, fmt.Sprintf("%s %s", c.Key, time.Since(s.began)))
		if c.Key == "bad" {
			answers[i].Err = &ipam.Error{Kind: ipam.KindUnknown, Message: "failed"}
		}
	}
	return answers
}

func (s *scripted) Answered(_ string, claims []ipam.Claim, answers []ipam.Answer) {
	for i, a := range answers {
		if a.Err != nil {
			s.want(claims[i].Key)
		}
	}
}

func (s *scripted) Wanted(string, int) []ipam.Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	claims := s.queue
	s.queue = nil
	return claims
}

func (s *scripted) Releasing(string, int) []ipam.Grant                  { return nil }
func (s *scripted) Departed(string, int) []string                       { return nil }
func (s *scripted) Dismissed(string, []string, []error)                 {}
func (s *scripted) prepare(context.Context) error                       { return nil }
func (s *scripted) renew()                                              {}
func (s *scripted) Release(context.Context, []ipam.Grant) []error       { return nil }
func (s *scripted) Capacity(context.Context) (c ipam.Capacity, _ error) { return c, nil }
func (s *scripted) ReleaseAll(context.Context, string) error            { return nil }
func (s *scripted) batch() int                                          { return 10 }
func (s *scripted) nearby() bool                                        { return true }
func (s *scripted) rest() time.Duration                                 { return 24 * time.Hour }
func (s *scripted) measuring(error) *ipam.Error                         { return nil }
func (s *scripted) close()                                              {}

// At a nearby backend, requests cost nothing. So a new claim waits at most a second for an older
// claim that fails.
func TestNewWorkEndsTheDelayOfABackendNearby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{began: time.Now(), queue: []ipam.Claim{{Key: "bad"}}}
		m := New(s, Options{Changed: func(string) {}, Log: slog.New(slog.DiscardHandler), Random: func() float64 { return 0 }})
		w := newWorker(m, config.Backend{Group: "lb"}, s, m.states.add(State{Group: "lb"}))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { w.run(ctx); close(ended) }()
		time.Sleep(40 * time.Second)
		s.want("good")
		backoff.Poke(w.poked)
		time.Sleep(100 * time.Millisecond)
		s.want("better")
		backoff.Poke(w.poked)
		time.Sleep(5 * time.Second)
		cancel()
		<-ended
		got := fmt.Sprint(s.claimed)
		want := "[bad 0s bad 1s bad 3s bad 7s bad 15s bad 31s bad 40s good 40s bad 40s bad 41s better 41s bad 41s bad 42s bad 44s]"
		if got != want {
			t.Errorf("the claims are\n%s, want\n%s", got, want)
		}
	})
}
