package main

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"reflect"
	"syscall"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

func TestGapsAreFromTheFirstFailureToTheNextSuccess(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	refused, silent := syscall.ECONNREFUSED, error(&net.OpError{Err: context.DeadlineExceeded})
	got := tally([]attempt{
		{at(20), 3 * time.Millisecond, nil},
		{at(0), time.Millisecond, nil}, // attempts end in any order
		{at(30), time.Second, silent},
		{at(40), time.Millisecond, refused},
		{at(50), 2 * time.Millisecond, nil},
		{at(60), time.Millisecond, refused},
		{at(70), 0, &net.OpError{Err: os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)}}, // says nothing about the address
		{at(80), time.Millisecond, errors.New("odd\nthing")},
	})
	want := watched{
		From: at(0), Connections: 7, Failed: 4, NotTried: 1, Cause: got.Cause, Median: 0.002, P99: 0.003, Longest: 0.003,
		Gaps: []gap{
			{From: at(30), Seconds: 0.02, Failed: 2, Error: "no answer"},
			{From: at(60), Seconds: 0.02, Failed: 2, Error: "refused", Open: true},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("tally is %+v, want %+v", got, want)
	}
}

// A server ends while it is watched, and nothing listens from then on.
func TestWatchTellsWhenAServerEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := 0
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_ = conn.Close()
			if served++; served == 5 {
				_ = l.Close()
				time.AfterFunc(100*time.Millisecond, cancel)
			}
		}
	}()
	w := watchFrom(ctx, netip.MustParseAddrPort(l.Addr().String()), 5*time.Millisecond)
	if w.Failed == 0 || w.Failed == w.Connections || len(w.Gaps) != 1 || w.Gaps[0].Error != "refused" || !w.Gaps[0].Open {
		t.Errorf("watch saw %+v", w)
	}
}
