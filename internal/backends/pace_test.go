package backends

import (
	"context"
	"errors"
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

func fault(kind ipam.Kind, message string, retry time.Duration) *ipam.Error {
	return &ipam.Error{Kind: kind, Message: message, RetryAfter: retry}
}

func TestDelaysGrow(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults []*ipam.Error
		jitter float64
		want   string
	}{
		{"away", []*ipam.Error{fault(ipam.KindUnavailable, "", 0), fault(ipam.KindUnknown, "", 0), fault(ipam.KindUnavailable, "", 0)}, 0, "[1s 2s 4s]"},
		{"misconfigured", []*ipam.Error{fault(ipam.KindMisconfigured, "", 0), fault(ipam.KindMisconfigured, "", 0)}, 0, "[15s 30s]"},
		{"each kind starts from the beginning", []*ipam.Error{fault(ipam.KindUnknown, "", 0), fault(ipam.KindMisconfigured, "", 0), fault(ipam.KindUnknown, "", 0)}, 0, "[1s 15s 1s]"},
		{"as long as the backend asks for", []*ipam.Error{fault(ipam.KindUnavailable, "", time.Hour), fault(ipam.KindUnavailable, "", 0)}, 0, "[1h0m0s 2s]"},
		{"with jitter", []*ipam.Error{fault(ipam.KindUnavailable, "", 0), fault(ipam.KindUnavailable, "", 0)}, 0.5, "[750ms 1.5s]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p pace
			var got []time.Duration
			now := time.Unix(0, 0)
			for _, f := range tt.faults {
				p.failed(now, f, tt.jitter)
				got = append(got, p.next.Sub(now))
			}
			if fmt.Sprint(got) != tt.want {
				t.Errorf("the delays are %s, want %s", got, tt.want)
			}
		})
	}
}

func TestResultOfACall(t *testing.T) {
	first := fault(ipam.KindUnknown, "no answer", 0)
	notAsked := &ipam.Error{Kind: ipam.KindUnavailable, Message: "not asked, because no answer", Cause: first}
	for _, tt := range []struct {
		name  string
		errs  []error
		want  string
		stops bool
	}{
		{"all granted", []error{nil, nil}, "2 2 ", false},
		{"a refusal of one claim", []error{fault(ipam.KindExhausted, "full", 0)}, "1 1 ", false},
		{"one fails", []error{nil, first}, "2 1 no answer", false},
		{"a failure with a requested delay", []error{nil, fault(ipam.KindUnknown, "500", time.Second)}, "2 1 500", true},
		{"all fail", []error{notAsked, first}, "2 0 no answer", true},
		{"the worst fault is shown", []error{fault(ipam.KindUnavailable, "away", 0), fault(ipam.KindMisconfigured, "mend me", 0), first}, "3 0 mend me", true},
		{"an error without a kind", []error{errors.New("what")}, "1 0 what", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := sum(tt.errs, faultOf)
			message := ""
			if r.fault != nil {
				message = r.fault.Message
			}
			if got := fmt.Sprintf("%d %d %s", r.count, r.decided, message); got != tt.want || r.stops() != tt.stops {
				t.Errorf("got %q, stops %t; want %q, %t", got, r.stops(), tt.want, tt.stops)
			}
		})
	}
}

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
			answers[i].Err = fault(ipam.KindUnknown, "failed", 0)
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
func (s *scripted) byHolder() bool                                      { return true }
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
