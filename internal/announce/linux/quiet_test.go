package linux

import (
	"testing"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/rtnetlink"
	"purelb.io/purelb/internal/testing/expect"
)

// counted is a transport that counts the change requests to the kernel.
type counted struct {
	rtnetlink.Transport
	writes int
}

// count makes s use a counted transport.
func count(t testing.TB, s *Stack) *counted {
	t.Helper()
	sock, err := rtnetlink.Open(unix.NETLINK_ROUTE)
	expect.NoError(t, err)
	if err := s.route.Close(); err != nil {
		t.Error(err)
	}
	c := &counted{Transport: sock}
	s.route = rtnetlink.NewConn(c)
	return c
}

func (c *counted) Send(msg []byte) error {
	for rest := msg; len(rest) > 0; {
		h, _, after, err := rtnetlink.Cut(rest)
		if err != nil {
			return err
		}
		switch h.Kind {
		case unix.RTM_GETADDR, unix.RTM_GETLINK, unix.RTM_GETROUTE:
		default:
			c.writes++
		}
		rest = after
	}
	return c.Transport.Send(msg)
}

// round is one round of the agent.
func round(t testing.TB, s *Stack, wanted []announce.Address) {
	t.Helper()
	c := announce.Diff(wanted, observe(t, s))
	put(t, s, c.Add...)
	put(t, s, c.Refresh...)
	remove(t, s, c.Remove...)
}

func TestNoChangeCausesNoWrite(t *testing.T) {
	newWorld(t)
	s := newStack(t)
	kernel := count(t, s)
	ip(t, "link add eth0 type bridge\nlink set eth0 up\naddr add 192.0.2.1/24 dev eth0")
	dummy(t, s)
	wanted := append(block("kube-lb0", "198.18.0.1/32", 100), block("kube-lb0", "2001:db8::1/128", 100)...)
	wanted = append(wanted, local("eth0", "192.0.2.9/24"), local("eth0", "fd00::9/64"))
	kernel.writes = 0
	round(t, s, wanted)
	expect.Equal(t, "writes for new addresses", kernel.writes, len(wanted))
	kernel.writes = 0
	for range 5 {
		dummy(t, s)
		round(t, s, wanted)
	}
	expect.Equal(t, "writes without a change", kernel.writes, 0)
}
