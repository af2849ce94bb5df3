package rtnetlink

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/expect"
)

// addresses returns a Watch for new IPv4 addresses.
func addresses(calm time.Duration) Watch {
	return Watch{
		Groups:  []int{unix.RTNLGRP_IPV4_IFADDR},
		Matters: func(h Header, _ []byte) bool { return h.Kind == unix.RTM_NEWADDR },
		Calm:    calm,
		Log:     slog.New(slog.DiscardHandler),
	}
}

// signalled waits for a signal. It returns false if the channel is closed.
func signalled(t *testing.T, changed <-chan struct{}) bool {
	t.Helper()
	select {
	case _, open := <-changed:
		return open
	case <-time.After(patience):
		t.Fatalf("no signal within %v", patience)
		return false
	}
}

func TestChangesThatMatterAreSignalled(t *testing.T) {
	for _, calm := range []time.Duration{0, time.Millisecond} {
		t.Run(calm.String(), func(t *testing.T) {
			newWorld(t)
			c := ask(t)
			ctx, cancel := context.WithCancel(t.Context())
			changed, err := addresses(calm).Signals(ctx)
			expect.NoError(t, err)
			for _, p := range block("192.0.2.1", 3) {
				put(t, c, block(p.Addr().String(), 1))
				signalled(t, changed)
				if err := c.Do(t.Context(), oldAddress(loopback, p)); err != nil { // the Watch ignores removals
					t.Fatal(err)
				}
			}
			cancel()
			eventually(t, "the channel is closed", func() bool { return !signalled(t, changed) })
		})
	}
}

func TestChangesDuringCalmAreOneSignal(t *testing.T) {
	newWorld(t)
	c := ask(t)
	sub := follow(t, 4<<20)
	put(t, c, block("198.18.0.1", 2000))
	var same int // a duplicate of the socket, which stays open after the subscription is closed
	_ = sub.raw.Control(func(fd uintptr) { same, _ = unix.Dup(int(fd)) })
	defer unix.Close(same)
	ctx, cancel := context.WithCancel(t.Context())
	changed := make(chan struct{}, 1)
	ended := make(chan error)
	go func() { ended <- addresses(time.Hour).hear(ctx, sub, changed) }()
	signalled(t, changed)
	cancel()
	if err := <-ended; err == nil {
		t.Error("the Watch continues after its context ends")
	}
	expect.Equal(t, "further signals during the calm", len(changed), 0)
	if _, err := receive(same, make([]byte, datagramSize)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("a change is left for another signal: %v", err)
	}
}

func TestLostMessagesAreSignalled(t *testing.T) {
	newWorld(t)
	c := ask(t)
	sub := follow(t, 1)
	w := addresses(0)
	w.Matters = func(Header, []byte) bool { return false }
	put(t, c, block("198.18.0.1", 1000))
	ctx, cancel := context.WithCancel(t.Context())
	changed := make(chan struct{}, 1)
	ended := make(chan error)
	go func() { ended <- w.hear(ctx, sub, changed) }()
	signalled(t, changed)
	cancel()
	if err := <-ended; err == nil {
		t.Error("the Watch continues after its context ends")
	}
}

func TestBrokenSubscriptionIsReopenedAndSignalled(t *testing.T) {
	newWorld(t)
	c := ask(t)
	broken, next := follow(t, 0), follow(t, 0)
	broken.Close()
	opened := 0
	ctx, cancel := context.WithCancel(t.Context())
	changed, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		addresses(0).follow(ctx, broken, func() (*Subscription, error) {
			if opened++; opened == 1 {
				return nil, errors.New("no sockets left")
			}
			return next, nil
		}, changed)
	}()
	signalled(t, changed)
	put(t, c, block("192.0.2.1", 1))
	signalled(t, changed)
	cancel()
	<-ended
	expect.Equal(t, "opened subscriptions", opened, 2)
}
