package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answering is a stream that answers with a text, or never.
type answering string

func (a answering) Stream(ctx context.Context) (io.ReadCloser, error) {
	if a == "" {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return io.NopCloser(strings.NewReader(string(a))), nil
}

// A dead node takes the time of one file, and a page that hangs takes no other file along.
func TestAReportAsksADeadNodeOnce(t *testing.T) {
	for _, tt := range []struct {
		name         string
		first, state answering
		want         string
		took         time.Duration
	}{
		{"all is well", "a", "b", "first.log: a\nstate: b\nsecond.log: c\n", 0},
		{"the node is dead", "", "", "first.log: silent\nstate: silent\nsecond.log: silent\n", beginLimit},
		{"a page hangs", "a", "", "first.log: a\nstate: silent\nsecond.log: c\n", beginLimit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, out := time.Now(), make(chan fetched, 3)
				ctx, cancel := context.WithTimeout(t.Context(), fetchLimit)
				defer cancel()
				fetchPod(ctx, []source{
					{"first.log", func() stream { return tt.first }, true},
					{"state", func() stream { return tt.state }, false},
					{"second.log", func() stream { return answering("c") }, true},
				}, out)
				close(out)
				var got strings.Builder
				for one := range out {
					text := string(one.text)
					if errors.Is(one.err, errSilent) {
						text = "silent"
					}
					got.WriteString(one.name + ": " + text + "\n")
				}
				if diff := cmp.Diff(tt.want, got.String()); diff != "" {
					t.Errorf("files (-want +got):\n%s", diff)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %s, want %s", took, tt.took)
				}
			})
		})
	}
}

// The redactor of a report knows a secret by what is before it in the line.
func TestACutLogBeginsWithAWholeLine(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string
		cut              int64
	}{
		{"a short log", "password=a\nb\n", "password=a\nb\n", 0},
		{"cut inside a line", "password=secret\nb\nc\n", "b\nc\n", 16},
		{"cut after a line", "a long line of a log\npassword=abcd\nb\n", "b\n", 35},
		{"one line", "password=secret-that-is-long", "", 28},
	} {
		text, cut, err := tail(iotest.OneByteReader(strings.NewReader(tt.text)), 16)
		if string(text) != tt.want || cut != tt.cut || err != nil {
			t.Errorf("%s: got %q, without %d bytes, %v; want %q, without %d", tt.name, text, cut, err, tt.want, tt.cut)
		}
	}
}
