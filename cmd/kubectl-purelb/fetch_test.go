package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
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
