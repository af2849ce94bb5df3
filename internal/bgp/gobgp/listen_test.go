package gobgp

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestTheServerListensAtAnAddressWhenTheNodeHasIt(t *testing.T) {
	newWorld(t)
	here := bgptest.Here(t)
	s := newServer(t)
	wanted := state(peer("192.0.2.2"))
	wanted.Global.Listen = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("203.0.113.77"), netip.MustParseAddr("2001:db8::77")}
	problems := tryApply(t, s, wanted)
	if len(problems) != 2 || problems[0].Field != listenPath || !strings.Contains(problems[0].Message, "203.0.113.77") {
		t.Errorf("the problems are %v, want one for each address that the node does not have", problems)
	}
	here.Address("eth0", "203.0.113.77/32")
	here.Address("eth0", "2001:db8::77/128")
	s = restarted(t, s, wanted)
	apply(t, s, wanted)
	listens := func(address string) error {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	for _, address := range []string{"192.0.2.1:179", "203.0.113.77:179", "[2001:db8::77]:179"} {
		if err := listens(address); err != nil {
			t.Error(err)
		}
	}

	// The removal of an address needs no other server.
	here.IP("address del 203.0.113.77/32 dev eth0")
	apply(t, s, wanted)
}

// restarted returns the server of the next process, because wanted needs another one.
func restarted(t *testing.T, s *Server, wanted peering.State) *Server {
	t.Helper()
	if _, err := s.Apply(t.Context(), wanted, false); !errors.Is(err, ErrRestart) {
		t.Errorf("the error is %v, want ErrRestart", err)
	}
	expect.NoError(t, s.Stop(t.Context(), true))
	return newServer(t)
}

func TestARefusedGlobalKeepsTheRunningServer(t *testing.T) {
	w := newWorld(t)
	router := w.frr("192.0.2.1")
	s := announcing(t, "198.51.100.1/32")
	apply(t, s, state(graceful(peer("192.0.2.2"))))
	router.Await("198.51.100.1/32 via 192.0.2.1")
	for _, tt := range []struct {
		name  string
		spoil func(*peering.Global)
	}{
		{"addresses of other machines", func(g *peering.Global) { g.Listen = []netip.Addr{netip.MustParseAddr("203.0.113.77")} }},
		{"a missing device", func(g *peering.Global) { g.Device = "nowhere0" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := s.engine
			wrong := state(graceful(peer("192.0.2.2")))
			tt.spoil(&wrong.Global)
			if _, err := s.Apply(t.Context(), wrong, false); err == nil || errors.Is(err, ErrRestart) {
				t.Errorf("the error is %v, want one that is not ErrRestart", err)
			}
			if s.engine != before {
				t.Error("the server was restarted")
			}
			if _, err := s.Apply(t.Context(), wrong, false); err == nil || s.engine != before {
				t.Errorf("the second attempt returns %v, want an error and the same server", err)
			}
			established(t, s, "192.0.2.2")
			announce(t, s, routes("198.51.100.1/32", "198.51.100.2/32")...)
			router.Await("198.51.100.1/32 via 192.0.2.1", "198.51.100.2/32 via 192.0.2.1")
			announce(t, s, routes("198.51.100.1/32")...)
			apply(t, s, state(graceful(peer("192.0.2.2"))))
			router.Await("198.51.100.1/32 via 192.0.2.1")
		})
	}
}

// A busy port costs no session: the node connects to its neighbors, and listens when the port is free.
func TestANodeWhosePortIsInUseOpensItsSessions(t *testing.T) {
	w := newWorld(t)
	taken, err := net.Listen("tcp", ":179")
	expect.NoError(t, err)
	defer taken.Close()
	go func() { // as a program that does not know the router
		for conn, err := taken.Accept(); err == nil; conn, err = taken.Accept() {
			conn.Close()
		}
	}()
	router := w.frr("192.0.2.1")
	s := announcing(t, "198.51.100.1/32")
	wanted := state(graceful(peer("192.0.2.2")))
	for range 2 {
		problems := tryApply(t, s, wanted)
		if len(problems) != 1 || problems[0].Field != portPath || !strings.Contains(problems[0].Message, "address already in use") {
			t.Errorf("the problems are %v, want one of the port", problems)
		}
	}
	router.Await("198.51.100.1/32 via 192.0.2.1")
	taken.Close()
	apply(t, restarted(t, s, wanted), wanted)
	if conn, err := net.Dial("tcp", "192.0.2.1:179"); err != nil {
		t.Errorf("with a free port, the node does not listen: %v", err)
	} else {
		conn.Close()
	}
}
