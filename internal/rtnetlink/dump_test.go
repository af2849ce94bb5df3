package rtnetlink

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/expect"
)

func TestDump(t *testing.T) {
	const interrupted = unix.NLM_F_DUMP_INTR
	tests := []struct {
		name    string
		answer  func(asked int, seq uint32) [][]byte
		want    string
		wantErr string
		asked   int
	}{
		{
			name: "all parts up to the end",
			answer: func(_ int, seq uint32) [][]byte {
				return [][]byte{append(entry(0, seq, "a"), entry(0, seq, "b")...), entry(0, seq, "c"), result(unix.NLMSG_DONE, seq, 0)}
			},
			want: "a b c", asked: 1,
		},
		{
			name: "unwanted entries are left out",
			answer: func(_ int, seq uint32) [][]byte {
				return [][]byte{append(entry(0, seq, "a"), entry(0, seq, "-")...), result(unix.NLMSG_DONE, seq, 0)}
			},
			want: "a", asked: 1,
		},
		{
			name: "answers to other requests are ignored",
			answer: func(_ int, seq uint32) [][]byte {
				return [][]byte{entry(interrupted, seq-1, "x"), result(unix.NLMSG_DONE, seq-1, 0), entry(0, seq, "a"), result(unix.NLMSG_DONE, seq, 0)}
			},
			want: "a", asked: 1,
		},
		{
			name: "an interrupted dump is repeated",
			answer: func(asked int, seq uint32) [][]byte {
				if asked < 3 {
					return [][]byte{entry(0, seq, "half"), entry(interrupted, seq, "wrong"), result(unix.NLMSG_DONE, seq, 0)}
				}
				return [][]byte{entry(0, seq, "a"), result(unix.NLMSG_DONE, seq, 0)}
			},
			want: "a", asked: 3,
		},
		{
			name: "the last message may report the interruption",
			answer: func(_ int, seq uint32) [][]byte {
				return [][]byte{entry(0, seq, "half"), message(unix.NLMSG_DONE, interrupted, seq, make([]byte, 4))}
			},
			wantErr: "dump interrupted by changes 11 times", asked: 11,
		},
		{
			name: "a dump that ends with an error is an error",
			answer: func(_ int, seq uint32) [][]byte {
				return [][]byte{entry(0, seq, "half"), result(unix.NLMSG_DONE, seq, unix.ENOMEM)}
			},
			wantErr: "cannot allocate memory", asked: 1,
		},
		{
			name:    "a refused dump is an error",
			answer:  func(_ int, seq uint32) [][]byte { return [][]byte{result(unix.NLMSG_ERROR, seq, unix.EPERM)} },
			wantErr: "operation not permitted", asked: 1,
		},
		{
			name:    "a dump without an end is an error",
			answer:  func(_ int, seq uint32) [][]byte { return [][]byte{entry(0, seq, "half")} },
			wantErr: "recvfrom: resource temporarily unavailable", asked: 1,
		},
		{
			name: "an invalid entry is an error",
			answer: func(_ int, seq uint32) [][]byte {
				return [][]byte{entry(0, seq, ""), entry(0, seq, "a"), result(unix.NLMSG_DONE, seq, 0)}
			},
			wantErr: "empty entry", asked: 1,
		},
		{
			name:    "a truncated message is an error",
			answer:  func(_ int, seq uint32) [][]byte { return [][]byte{entry(0, seq, "abcdefgh")[:20]} },
			wantErr: "netlink message of 24 bytes in 20", asked: 1,
		},
		{
			name:    "a truncated result is an error",
			answer:  func(_ int, seq uint32) [][]byte { return [][]byte{message(unix.NLMSG_DONE, 0, seq, nil)} },
			wantErr: "netlink result of 0 bytes", asked: 1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kernel := &script{}
				kernel.answer = func(seq uint32) [][]byte { return tt.answer(kernel.asked, seq) }
				start := time.Now()
				got, err := Dump(t.Context(), NewConn(kernel), 11, NewRequest(unix.RTM_GETLINK, 0, nil), parseName)
				expect.Equal(t, "entries", strings.Join(got, " "), tt.want)
				if text := errorText(err); !strings.HasPrefix(text, tt.wantErr) || tt.wantErr == "" && err != nil {
					t.Errorf("error %q, want %q", text, tt.wantErr)
				}
				expect.Equal(t, "requests", kernel.asked, tt.asked)
				expect.Equal(t, "the pauses", time.Since(start), time.Millisecond*(1<<(tt.asked-1)-1))
			})
		})
	}
}

func parseName(body []byte) (string, bool, error) {
	if len(body) == 0 {
		return "", false, errors.New("empty entry")
	}
	return string(body), string(body) != "-", nil
}

func TestRepeatedDumpEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		kernel := &script{answer: func(seq uint32) [][]byte {
			return [][]byte{message(unix.NLMSG_DONE, unix.NLM_F_DUMP_INTR, seq, make([]byte, 4))}
		}}
		_, err := Dump(ctx, NewConn(kernel), 11, NewRequest(unix.RTM_GETLINK, 0, nil), parseName)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
