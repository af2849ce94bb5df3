package allocate

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// fakeLease is a Lease that may be missing. Each write takes a second.
type fakeLease struct {
	resourcelock.Interface
	me     string
	record *resourcelock.LeaderElectionRecord
}

func (s *fakeLease) Identity() string { return s.me }

func (s *fakeLease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if s.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, leaseName)
	}
	return s.record, nil, nil
}

func (s *fakeLease) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	time.Sleep(time.Second)
	s.record = &r
	return nil
}

func (s *fakeLease) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return s.Update(ctx, r)
}

func heldBy(who string) *resourcelock.LeaderElectionRecord {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: who}
}

// candidate returns the leaderLock of the allocator "me", and the error with which it ends.
func candidate(record *resourcelock.LeaderElectionRecord) (t *leaderLock, s *fakeLease, ended *error) {
	s, ended = &fakeLease{me: "me", record: record}, new(error)
	return &leaderLock{Interface: s, gate: newWriteGate(14 * time.Second), end: func(err error) { *ended = err }}, s, ended
}

// lead takes the Lease as the elector does.
func lead(t *testing.T, l *leaderLock) {
	t.Helper()
	if _, _, err := l.Get(t.Context()); apierrors.IsNotFound(err) {
		err = l.Create(t.Context(), *heldBy("me"))
		must(t, err)
		return
	}
	must(t, l.Update(t.Context(), *heldBy("me")))
}

func TestTakeoverWaitsForWritesOfTheFormerLeader(t *testing.T) {
	seen := func(l *leaderLock) { _, _, _ = l.Get(context.Background()) }
	for _, tt := range []struct {
		name   string
		record *resourcelock.LeaderElectionRecord
		before func(*leaderLock, *fakeLease)
		want   time.Duration
	}{
		{"nobody ever led", nil, nil, 0},
		{"it was released", heldBy(""), nil, 0},
		{"the Lease of another expired", heldBy("other"), nil, 0},
		{"a process of the same name was killed", heldBy("me"), nil, 6 * time.Second},
		{"the Lease of another was deleted", heldBy("other"), func(l *leaderLock, s *fakeLease) {
			seen(l)
			s.record = nil
		}, 20 * time.Second},
		{"a released Lease was deleted", heldBy(""), func(l *leaderLock, s *fakeLease) {
			seen(l)
			s.record = nil
		}, 0},
		{"the Lease of another was deleted, made again, and expired", heldBy("other"), func(l *leaderLock, s *fakeLease) {
			seen(l)
			s.record = nil
			seen(l)
			s.record = heldBy("other")
		}, 0},
		{"another released it while we stood by", heldBy("other"), func(l *leaderLock, s *fakeLease) {
			seen(l)
			s.record = heldBy("")
		}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s, _ := candidate(tt.record)
				defer l.gate.close()
				if tt.before != nil {
					tt.before(l, s)
				}
				lead(t, l)
				if got := max(0, l.quiet()); got != tt.want {
					t.Errorf("writes of the former leader may take effect for %s, want %s", got, tt.want)
				}
				lead(t, l) // a renewal, which takes a second
				if got := max(0, l.quiet()); got != max(0, tt.want-time.Second) {
					t.Errorf("a renewal makes it %s", got)
				}
			})
		})
	}
}

func TestLeadershipCountsFromSendingTheRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, _ := candidate(nil)
		defer l.gate.close()
		lead(t, l)
		time.Sleep(13*time.Second - time.Nanosecond)
		if err := ask(l.gate, http.MethodPatch, web, "ok"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Nanosecond)
		if err := ask(l.gate, http.MethodPatch, web, "ok"); !errors.Is(err, errNotRenewed) {
			t.Error(err)
		}
	})
}

func TestLeaderEndsWhenAnotherHoldsTheLease(t *testing.T) {
	for _, other := range []string{"other", ""} {
		synctest.Test(t, func(t *testing.T) {
			l, s, ended := candidate(nil)
			lead(t, l)
			s.record = heldBy(other)
			if _, _, err := l.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !errors.Is(*ended, errOvertaken) {
				t.Errorf("the leader ended because of %v", *ended)
			}
			if err := ask(l.gate, http.MethodPatch, web, "ok"); !errors.Is(err, errNotLeading) {
				t.Errorf("a write has the error %v", err)
			}
			if err := l.Update(t.Context(), *heldBy("me")); err == nil || s.record.HolderIdentity != other {
				t.Errorf("the former leader took the Lease back, error %v", err)
			}
		})
	}
}

func TestLeaseIsReleasedWhenNoWriteCanTakeEffect(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(*leaderLock, *fakeLease)
		holder string
		waits  time.Duration
	}{
		{"after nothing", func(*leaderLock, *fakeLease) {}, "", 0},
		{"after a write", func(l *leaderLock, _ *fakeLease) { _ = ask(l.gate, http.MethodPatch, web, "ok") }, "", 0},
		{"while a write is in progress", func(l *leaderLock, _ *fakeLease) {
			go func() { _ = ask(l.gate, http.MethodPatch, web, "never") }()
			synctest.Wait()
		}, "", 6 * time.Second},
		{"after a write without an answer", func(l *leaderLock, _ *fakeLease) {
			_ = ask(l.gate, http.MethodPatch, web, "timeout")
			time.Sleep(2 * time.Second)
		}, "", 4 * time.Second},
		{"if another allocator holds it", func(_ *leaderLock, s *fakeLease) { s.record = heldBy("other") }, "other", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s, _ := candidate(nil)
				lead(t, l)
				tt.before(l, s)
				_, _, _ = l.Get(t.Context())
				start := time.Now()
				err := l.Update(t.Context(), *heldBy(""))
				took := time.Since(start)
				if tt.holder == "" {
					took -= time.Second // the write of the Lease
				}
				if got := s.record.HolderIdentity; got != tt.holder || (err == nil) != (tt.holder == "") || took != tt.waits {
					t.Errorf("the holder is %q, want %q; error %v; after %s, want %s", got, tt.holder, err, took, tt.waits)
				}
				if err := ask(l.gate, http.MethodPatch, web, "ok"); !errors.Is(err, errNotLeading) {
					t.Errorf("a write has the error %v", err)
				}
			})
		})
	}
}

func TestLeaseIsNotReleasedWithoutTimeForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, _ := candidate(nil)
		lead(t, l)
		_ = ask(l.gate, http.MethodPatch, web, "timeout")
		ctx, cancel := context.WithTimeout(t.Context(), writeEnds-time.Second)
		defer cancel()
		if err := l.Update(ctx, *heldBy("")); err == nil || s.record.HolderIdentity != "me" {
			t.Errorf("the Lease is released although a write may take effect: %v", err)
		}
	})
}

func TestLeaderRecreatesItsDeletedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, ended := candidate(nil)
		defer l.gate.close()
		lead(t, l)
		s.record = nil
		lead(t, l)
		if s.record == nil || s.record.HolderIdentity != "me" || *ended != nil {
			t.Errorf("the Lease is %v, the leader ended with %v", s.record, *ended)
		}
	})
}
