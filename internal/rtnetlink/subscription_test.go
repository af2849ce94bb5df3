package rtnetlink

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/expect"
)

// heard counts the addresses that sub reports. It stops after want addresses, or when sub has lost
// messages.
func heard(t *testing.T, sub *Subscription, want int) (count int, lost bool) {
	t.Helper()
	for count < want && !lost {
		var err error
		lost, err = sub.Batch(time.Now().Add(patience), func(h Header, _ []byte) {
			if h.Kind == unix.RTM_NEWADDR {
				count++
			}
		})
		if err != nil {
			t.Fatalf("after %d: %v", count, err)
		}
	}
	return count, lost
}

func follow(t *testing.T, buffer int) *Subscription {
	t.Helper()
	sub, err := Subscribe(buffer, unix.RTNLGRP_IPV4_IFADDR)
	expect.NoError(t, err)
	t.Cleanup(sub.Close)
	return sub
}

func TestEveryChangeIsReported(t *testing.T) {
	newWorld(t)
	sub, c := follow(t, 4<<20), ask(t)
	put(t, c, block("198.18.0.1", 2000))
	if got, lost := heard(t, sub, 2000); got != 2000 || lost {
		t.Errorf("%d of 2000, lost %v", got, lost)
	}
}

func TestALossOfMessagesIsReported(t *testing.T) {
	newWorld(t)
	sub, c := follow(t, 1), ask(t) // the smallest buffer that the kernel allows
	put(t, c, block("198.18.0.1", 1000))
	if got, lost := heard(t, sub, 1000); got >= 1000 || !lost {
		t.Errorf("%d of 1000, lost %v", got, lost)
	}
	put(t, c, block("192.0.2.1", 1))
	if got, lost := heard(t, sub, 1); got != 1 || lost {
		t.Errorf("after the loss: %d, lost %v: the subscription does not continue", got, lost)
	}
}

func TestTooLargeDatagramIsLost(t *testing.T) {
	newWorld(t)
	sub, c := follow(t, 0), ask(t)
	sub.buf = sub.buf[:32]
	put(t, c, block("192.0.2.1", 1))
	if got, lost := heard(t, sub, 1); got != 0 || !lost {
		t.Errorf("%d, lost %v", got, lost)
	}
}

func TestSubscriptionIgnoresOtherProcesses(t *testing.T) {
	newWorld(t)
	sub, c := follow(t, 0), ask(t)
	var port uint32
	_ = sub.raw.Control(func(fd uintptr) {
		name, err := unix.Getsockname(int(fd))
		if err != nil {
			t.Error(err)
			return
		}
		port = name.(*unix.SockaddrNetlink).Pid
	})
	other := openSocket(t)
	defer other.Close()
	forged := message(unix.RTM_NEWADDR, 0, 0, nil)
	for range 3 {
		expect.NoError(t, unix.Sendto(other.fd, forged, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Pid: port}))
	}
	put(t, c, block("192.0.2.1", 1))
	if got, lost := heard(t, sub, 1); got != 1 || lost {
		t.Errorf("heard %d, lost %v", got, lost)
	}
}

func TestABatchEndsAtItsDeadline(t *testing.T) {
	newWorld(t)
	lost, err := follow(t, 0).Batch(time.Now(), func(h Header, _ []byte) { t.Errorf("heard %v", h) })
	if lost || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("lost %v, %v", lost, err)
	}
}

func TestCloseEndsAWaitingBatch(t *testing.T) {
	newWorld(t)
	sub := follow(t, 0)
	ended := make(chan error)
	go func() {
		_, err := sub.Batch(time.Time{}, func(h Header, _ []byte) { t.Errorf("heard %v", h) })
		ended <- err
	}()
	eventually(t, "the batch waits", func() bool { return waits("(*Subscription).Batch") })
	sub.Close()
	if err := <-ended; err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the batch ended with %v", err)
	}
	sub.Close()
	if _, err := sub.Batch(time.Time{}, nil); err == nil {
		t.Error("a closed subscription can be read")
	}
}

// waits reports whether a goroutine in function waits for the network.
func waits(function string) bool {
	buf := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		state, _, _ := strings.Cut(stack, "\n")
		if strings.Contains(state, "[IO wait") && strings.Contains(stack, function) {
			return true
		}
	}
	return false
}

func TestMissingMulticastGroupIsAnError(t *testing.T) {
	newWorld(t)
	_, err := Subscribe(0, 1<<20)
	if want := "subscribe to changes: join netlink group 1048576: "; !strings.HasPrefix(errorText(err), want) {
		t.Errorf("got %q, want %q", errorText(err), want)
	}
}
