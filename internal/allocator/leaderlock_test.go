package allocator

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

func TestTakeoverIsCleanAfterARelease(t *testing.T) {
	for _, tt := range []struct {
		name   string
		record *resourcelock.LeaderElectionRecord
		before func(*leaderLock, *fakeLease)
		want   bool
	}{
		{"nobody ever led", nil, nil, false},
		{"it was released", heldBy(""), nil, false},
		{"another was cut off", heldBy("other"), nil, true},
		{"a process of the same name was killed", heldBy("me"), nil, true},
		{"the Lease of another holder was deleted", heldBy("other"), func(l *leaderLock, s *fakeLease) {
			_, _, _ = l.Get(context.Background())
			s.record = nil
		}, true},
		{"another released it while we stood by", heldBy("other"), func(l *leaderLock, s *fakeLease) {
			_, _, _ = l.Get(context.Background())
			s.record = heldBy("")
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s, _ := candidate(tt.record)
				defer l.gate.close()
				if tt.before != nil {
					tt.before(l, s)
				}
				lead(t, l)
				lead(t, l) // a renewal changes nothing
				if got := l.isUnclean(); got != tt.want {
					t.Errorf("unclean is %t, want %t", got, tt.want)
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

func TestLeaseIsReleasedWithoutDoubtfulWrites(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(*leaderLock, *fakeLease)
		want   string
	}{
		{"after nothing", func(*leaderLock, *fakeLease) {}, ""},
		{"after a write", func(l *leaderLock, _ *fakeLease) { _ = ask(l.gate, http.MethodPatch, web, "ok") }, ""},
		{"while a write is in progress", func(l *leaderLock, _ *fakeLease) {
			go func() { _ = ask(l.gate, http.MethodPatch, web, "never") }()
			synctest.Wait()
		}, "me"},
		{"after a write without an answer", func(l *leaderLock, _ *fakeLease) { _ = ask(l.gate, http.MethodPatch, web, "timeout") }, "me"},
		{"if another allocator holds it", func(_ *leaderLock, s *fakeLease) { s.record = heldBy("other") }, "other"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s, _ := candidate(nil)
				lead(t, l)
				tt.before(l, s)
				_, _, _ = l.Get(t.Context())
				err := l.Update(t.Context(), *heldBy(""))
				if got := s.record.HolderIdentity; got != tt.want || (err == nil) != (tt.want == "") {
					t.Errorf("the holder is %q, want %q; error %v", got, tt.want, err)
				}
				if err := ask(l.gate, http.MethodPatch, web, "ok"); !errors.Is(err, errNotLeading) {
					t.Errorf("a write has the error %v", err)
				}
			})
		})
	}
}

// TestStandbyWaitsOutADeletedLease deletes the Lease of a leader. The leader does not know that
// yet. It may write until its Lease would have expired.
func TestStandbyWaitsOutADeletedLease(t *testing.T) {
	const lasts = 20 * time.Second
	for _, tt := range []struct {
		name   string
		holder string
		waits  time.Duration
	}{
		{"another holds it", "other", lasts},
		{"it was released", "", 0},
		{"an earlier process of this name held it", "me", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				record := heldBy(tt.holder)
				record.LeaseDurationSeconds = int(lasts / time.Second)
				l, s, _ := candidate(record)
				defer l.gate.close()
				_, _, _ = l.Get(t.Context())
				time.Sleep(time.Minute)
				s.record = nil
				deleted := time.Now()
				for _, _, err := l.Get(t.Context()); !apierrors.IsNotFound(err); _, _, err = l.Get(t.Context()) {
					if err == nil || time.Since(deleted) > time.Minute {
						t.Fatalf("after %s: %v", time.Since(deleted), err)
					}
					time.Sleep(time.Second)
				}
				if waited := time.Since(deleted); waited != tt.waits {
					t.Errorf("the Lease can be taken after %s, want %s", waited, tt.waits)
				}
			})
		})
	}
}

func TestReturningHolderRestartsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		record := heldBy("other")
		record.LeaseDurationSeconds = 20
		l, s, _ := candidate(record)
		defer l.gate.close()
		for range 3 {
			s.record = record
			_, _, _ = l.Get(t.Context())
			s.record = nil
			for range 3 {
				if _, _, err := l.Get(t.Context()); err == nil || apierrors.IsNotFound(err) {
					t.Fatalf("another took the Lease although its holder made it again: %v", err)
				}
				time.Sleep(5 * time.Second)
			}
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
