package routing

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestSessionsOfOtherProgramsAreSeen(t *testing.T) {
	here, there, wire := newSpace(t), bgptest.NewNamespace(t), bgptest.NewSegment(t)
	wire.Join(here.Namespace, "eth0", "192.0.2.1/24", "2001:db8::1/64")
	wire.Join(there, "eth0", "192.0.2.2/24", "192.0.2.3/24", "2001:db8::2/64")
	k := here.kernel(t)
	taken := func(neighbor string, port uint16) string {
		var local netip.AddrPort
		var found bool
		here.Do(func() {
			var err error
			if local, found, err = k.Taken(t.Context(), netip.MustParseAddr(neighbor), port); err != nil {
				t.Error(err)
			}
		})
		return fmt.Sprint(local.Addr(), " ", found)
	}
	expect.Equal(t, "without a session", taken("192.0.2.2", 179), "invalid IP false")
	expect.Equal(t, "without a session", taken("2001:db8::2", 179), "invalid IP false")

	speak := func(n *bgptest.Namespace, id string, own, other int, four, six, four2, six2 string) *bgptest.Router {
		const session = "protocol bgp { local %s as %d; neighbor %s as %d; connect delay time 1; error wait time 1, 2; connect retry time 1; ipv4 { import none; export none; }; }\n"
		return bgptest.BIRD(t, n, fmt.Sprintf("router id %s;\n"+session+session, id, four, own, four2, other, six, own, six2, other))
	}
	speak(there, "192.0.2.2", 65002, 65001, "192.0.2.2", "2001:db8::2", "192.0.2.1", "2001:db8::1")
	program := speak(here.Namespace, "192.0.2.1", 65001, 65002, "192.0.2.1", "2001:db8::1", "192.0.2.2", "2001:db8::2")
	for neighbor, local := range map[string]string{"192.0.2.2": "192.0.2.1", "2001:db8::2": "2001:db8::1"} {
		bgptest.Await(t, "the session with "+neighbor, local+" true", func() string { return taken(neighbor, 179) })
		expect.Equal(t, "at another port", taken(neighbor, 1790), "invalid IP false")
	}
	expect.Equal(t, "with another neighbor", taken("192.0.2.3", 179), "invalid IP false")

	program.Kill()
	bgptest.Await(t, "the session of a program that has ended", "invalid IP false", func() string { return taken("192.0.2.2", 179) })
}

func TestOwnSessionsAreNotTaken(t *testing.T) {
	here := newSpace(t)
	k := here.kernel(t)
	here.Do(func() {
		listener, err := net.Listen("tcp", "127.0.0.1:1790")
		if err != nil {
			t.Error(err)
			return
		}
		defer listener.Close()
		conn, err := net.Dial("tcp", "127.0.0.1:1790")
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, found, err := k.Taken(t.Context(), netip.MustParseAddr("127.0.0.1"), 1790); found || err != nil {
			t.Errorf("this process has taken the session: %v, %v", found, err)
		}
		if all, err := connections(t.Context(), netip.MustParseAddr("127.0.0.1")); len(all) != 2 || err != nil {
			t.Errorf("the connections are %v, %v; want both ends", all, err)
		}
	})
}

// This process closes a connection, or opens one, while it is asked for its sockets.
func TestAConnectionThatEndsMeanwhileIsNotTaken(t *testing.T) {
	at := func(inode uint32) connection {
		return connection{netip.MustParseAddrPort("192.0.2.1:40112"), netip.MustParseAddrPort("192.0.2.2:179"), inode}
	}
	own := map[uint32]bool{1: true}
	for _, tt := range []struct {
		what          string
		before, after []connection
		want          int
	}{
		{"our own", []connection{at(1)}, []connection{at(1)}, 0},
		{"one that was closed meanwhile", []connection{at(2)}, nil, 0},
		{"one in its place", []connection{at(2)}, []connection{at(3)}, 0},
		{"one that nobody has accepted", []connection{at(0)}, []connection{at(0)}, 0},
		{"one of another program", []connection{at(1), at(2)}, []connection{at(1), at(2)}, 1},
	} {
		expect.Equal(t, tt.what, len(others(tt.before, own, tt.after)), tt.want)
	}
}
