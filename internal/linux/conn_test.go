package linux

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// message is a netlink message as it is on the wire.
func message(kind, flags uint16, seq uint32, body []byte) []byte {
	b := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+align(len(body)))
	native.PutUint32(b, uint32(unix.SizeofNlMsghdr+len(body)))
	native.PutUint16(b[4:], kind)
	native.PutUint16(b[6:], flags)
	native.PutUint32(b[8:], seq)
	b = append(b, body...)
	return append(b, make([]byte, align(len(b))-len(b))...)
}

func result(kind uint16, seq uint32, errno unix.Errno) []byte {
	body := make([]byte, 4, 4+unix.SizeofNlMsghdr)
	native.PutUint32(body, uint32(-int32(errno)))
	if kind == unix.NLMSG_ERROR {
		body = append(body, make([]byte, unix.SizeofNlMsghdr)...)
	}
	return message(kind, 0, seq, body)
}

// script is a kernel that answers each datagram by what it says for the
// messages in it: entries, and how it goes on.
type script struct {
	answer func(seq uint32) [][]byte
	queue  [][]byte
	asked  int
}

func (s *script) send(msg []byte) error {
	for len(msg) > 0 {
		h, _, rest, err := cut(msg)
		if err != nil {
			return err
		}
		s.asked++
		s.queue = append(s.queue, s.answer(h.Seq)...)
		msg = rest
	}
	return nil
}

func (s *script) receive(buf []byte) (int, error) {
	if len(s.queue) == 0 {
		return 0, os.NewSyscallError("recvfrom", unix.EAGAIN)
	}
	n := copy(buf, s.queue[0])
	s.queue = s.queue[1:]
	return n, nil
}

func (s *script) close() error { return nil }

func entry(flags uint16, seq uint32, name string) []byte {
	return message(unix.RTM_NEWLINK, flags|unix.NLM_F_MULTI, seq, []byte(name))
}

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
			name: "answers to somebody else are not ours",
			answer: func(_ int, seq uint32) [][]byte {
				return [][]byte{entry(interrupted, seq-1, "x"), result(unix.NLMSG_DONE, seq-1, 0), entry(0, seq, "a"), result(unix.NLMSG_DONE, seq, 0)}
			},
			want: "a", asked: 1,
		},
		{
			name: "an interrupted dump is begun again",
			answer: func(asked int, seq uint32) [][]byte {
				if asked < 3 {
					return [][]byte{entry(0, seq, "half"), entry(interrupted, seq, "wrong"), result(unix.NLMSG_DONE, seq, 0)}
				}
				return [][]byte{entry(0, seq, "a"), result(unix.NLMSG_DONE, seq, 0)}
			},
			want: "a", asked: 3,
		},
		{
			name: "an interruption may be told with the end",
			answer: func(_ int, seq uint32) [][]byte {
				return [][]byte{entry(0, seq, "half"), message(unix.NLMSG_DONE, interrupted, seq, make([]byte, 4))}
			},
			wantErr: "dump interrupted by changes 11 times", asked: dumpTries,
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
			name: "an entry that makes no sense is an error",
			answer: func(_ int, seq uint32) [][]byte {
				return [][]byte{entry(0, seq, ""), entry(0, seq, "a"), result(unix.NLMSG_DONE, seq, 0)}
			},
			wantErr: "empty entry", asked: 1,
		},
		{
			name:    "a message that is cut short is an error",
			answer:  func(_ int, seq uint32) [][]byte { return [][]byte{entry(0, seq, "abcdefgh")[:20]} },
			wantErr: "netlink message of 24 bytes in 20", asked: 1,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kernel := &script{}
				kernel.answer = func(seq uint32) [][]byte { return tt.answer(kernel.asked, seq) }
				got, err := dump(t.Context(), newConn(kernel), nl.NewNetlinkRequest(unix.RTM_GETLINK, 0), parseName)
				if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
					t.Errorf("entries (-want +got):\n%s", diff)
				}
				if text := errorText(err); !strings.HasPrefix(text, tt.wantErr) || tt.wantErr == "" && err != nil {
					t.Errorf("error %q, want %q", text, tt.wantErr)
				}
				if kernel.asked != tt.asked {
					t.Errorf("asked %d times, want %d", kernel.asked, tt.asked)
				}
			})
		})
	}
}

func parseName(body []byte) (string, bool, error) {
	if len(body) == 0 {
		return "", false, errors.New("empty entry")
	}
	return string(body), true, nil
}

func TestARetriedDumpHeedsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), answerTime/1000)
		defer cancel()
		kernel := &script{answer: func(seq uint32) [][]byte {
			return [][]byte{message(unix.NLMSG_DONE, unix.NLM_F_DUMP_INTR, seq, make([]byte, 4))}
		}}
		_, err := dump(ctx, newConn(kernel), nl.NewNetlinkRequest(unix.RTM_GETLINK, 0), parseName)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestBatchTellsTheFailureOfEachRequest(t *testing.T) {
	const count = 2*batchSize + 10
	failing := map[uint32]unix.Errno{1: unix.EEXIST, batchSize: unix.ENODEV, batchSize + 1: unix.EPERM, count: unix.EINVAL}
	kernel := &script{}
	kernel.answer = func(seq uint32) [][]byte {
		if errno := failing[seq]; errno != 0 || seq%batchSize == 0 || seq == count {
			return [][]byte{result(unix.NLMSG_ERROR, seq, errno)} // a failure, or asked for
		}
		return nil
	}
	errs := newConn(kernel).batch(t.Context(), requests(count))
	got := map[uint32]unix.Errno{}
	for i, err := range errs {
		if errno := unix.Errno(0); errors.As(err, &errno) {
			got[uint32(i+1)] = errno
		}
	}
	if diff := cmp.Diff(failing, got); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

func TestABatchWhoseAnswersAreLostHasFailed(t *testing.T) {
	kernel := &script{answer: func(uint32) [][]byte { return nil }}
	for i, err := range newConn(kernel).batch(t.Context(), requests(3)) {
		if !errors.Is(err, unix.EAGAIN) {
			t.Errorf("request %d: %v", i, err)
		}
	}
}

func requests(count int) []*nl.NetlinkRequest {
	reqs := make([]*nl.NetlinkRequest, count)
	for i := range reqs {
		reqs[i] = nl.NewNetlinkRequest(unix.RTM_NEWADDR, 0)
	}
	return reqs
}

// Whatever is in a message, reading it ends, and does so without a panic.
func FuzzMessages(f *testing.F) {
	f.Add(append(entry(0, 1, "a"), result(unix.NLMSG_ERROR, 2, unix.EPERM)...))
	f.Add(message(unix.RTM_NEWROUTE, 0, 1, make([]byte, unix.SizeofRtMsg)))
	f.Fuzz(func(t *testing.T, datagram []byte) {
		relevant(datagram)
		for len(datagram) > 0 {
			h, body, rest, err := cut(datagram)
			if err != nil {
				return
			}
			_ = failure(h, body)
			_, _ = parseAddress(body)
			_, _ = parseLink(body)
			_, _, _ = parseRoute(body, unix.AF_INET)
			datagram = rest
		}
	})
}
