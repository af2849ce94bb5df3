package rtnetlink

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/expect"
)

func TestABatchWithLostAnswersFails(t *testing.T) {
	kernel := &script{answer: func(uint32) [][]byte { return nil }}
	for i, err := range NewConn(kernel).Batch(t.Context(), requests(3)) {
		if !errors.Is(err, unix.EAGAIN) {
			t.Errorf("request %d: %v", i, err)
		}
	}
}

func TestNoRequestAfterTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	kernel := &script{answer: func(uint32) [][]byte { return nil }}
	c := NewConn(kernel)
	req := NewRequest(unix.RTM_GETLINK, 0, nil)
	_, askErr := c.Ask(ctx, req)
	_, dumpErr := Dump(ctx, c, 11, req, parseName)
	for what, err := range map[string]error{"ask": askErr, "do": c.Do(ctx, req), "dump": dumpErr} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
	expect.Equal(t, "requests", kernel.asked, 0)
}

func requests(count int) []*Request {
	reqs := make([]*Request, count)
	for i := range reqs {
		reqs[i] = NewRequest(unix.RTM_NEWADDR, 0, nil)
	}
	return reqs
}

func TestBatchReportsEachFailedRequest(t *testing.T) {
	newWorld(t)
	c := ask(t)
	wanted := block("198.18.0.1", 3*batchSize)
	var reqs []*Request
	for i, p := range wanted {
		switch i {
		case 0, batchSize - 1, batchSize, len(wanted) - 1:
			reqs = append(reqs, newAddress(loopback+1, p)) // a link that does not exist
		default:
			reqs = append(reqs, newAddress(loopback, p))
		}
	}
	var failed []int
	for i, err := range c.Batch(t.Context(), reqs) {
		if errors.Is(err, unix.ENODEV) {
			failed = append(failed, i)
		} else if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	expect.Equal(t, "failed requests", failed, []int{0, batchSize - 1, batchSize, len(wanted) - 1})
	if got, err := dumpAddresses(t, c, 1); len(got) != len(wanted)-4 || err != nil {
		t.Errorf("%d addresses are there: %v", len(got), err)
	}
	if err := c.Do(t.Context(), oldAddress(loopback, wanted[1])); err != nil {
		t.Errorf("take one off: %v", err)
	}
}

func TestRefusalHasTheKernelsExplanation(t *testing.T) {
	newWorld(t)
	c := ask(t)
	for _, tt := range []struct {
		name string
		req  *Request
		want string
		is   unix.Errno
	}{
		{
			"with an explanation", newAddress(loopback, netip.PrefixFrom(netip.MustParseAddr("192.0.2.1"), 33)),
			"ipv4: Invalid prefix length (invalid argument)", unix.EINVAL,
		},
		{
			"without one", NewRequest(unix.RTM_DELLINK, 0, linkBody(loopback+1)),
			"no such device", unix.ENODEV,
		},
	} {
		err := c.Do(t.Context(), tt.req)
		if !errors.Is(err, tt.is) || errorText(err) != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, errorText(err), tt.want)
		}
	}
}

func TestAskReturnsItsAnswer(t *testing.T) {
	newWorld(t)
	c := ask(t)
	body, err := c.Ask(t.Context(), NewRequest(unix.RTM_GETLINK, 0, linkBody(loopback)))
	expect.NoError(t, err)
	expect.Equal(t, "link", unix.ByteSliceToString(Attribute(body[unix.SizeofIfInfomsg:], unix.IFLA_IFNAME)), "lo")
	if body, err := c.Ask(t.Context(), NewRequest(unix.RTM_GETLINK, 0, linkBody(loopback+1))); body != nil || !errors.Is(err, unix.ENODEV) {
		t.Errorf("for a missing object: %x, %v", body, err)
	}
}

func TestAnswersToOtherRequestsAreIgnored(t *testing.T) {
	kernel := &script{answer: func(seq uint32) [][]byte {
		return [][]byte{append(entry(0, seq-1, "late"), result(unix.NLMSG_ERROR, seq-1, unix.EPERM)...), entry(0, seq, "right")}
	}}
	body, err := NewConn(kernel).Ask(t.Context(), NewRequest(unix.RTM_GETLINK, 0, nil))
	if string(body) != "right" || err != nil {
		t.Errorf("got %q, %v", body, err)
	}
}

func TestAClosedConnSendsNothing(t *testing.T) {
	newWorld(t)
	c := ask(t)
	expect.NoError(t, c.Close())
	ask(t) // this socket may get the number of the closed one
	if _, err := dumpAddresses(t, c, 1); !errors.Is(err, unix.EBADF) {
		t.Errorf("got %v", err)
	}
}

func TestMissingNetlinkFamilyIsAnError(t *testing.T) {
	if _, err := Open(31); !errors.Is(err, unix.EPROTONOSUPPORT) {
		t.Errorf("got %v", err)
	}
}
