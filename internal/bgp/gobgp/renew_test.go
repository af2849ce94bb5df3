package gobgp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

// impatient is a router with a hold time of 3 s. It closes a connection on which it gets no
// KEEPALIVE within that time.
type impatient struct {
	t        *testing.T
	listener net.Listener
}

const impatience = 3 * time.Second

func (i *impatient) serve() {
	for {
		conn, err := i.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			i.t.Error(err)
			return
		}
		go i.speak(conn)
	}
}

func (i *impatient) speak(conn net.Conn) {
	defer conn.Close()
	i.say(conn, i.open())
	i.say(conn, bgp.NewBGPKeepAliveMessage())
	for heard := 0; ; heard++ {
		_ = conn.SetReadDeadline(time.Now().Add(impatience))
		err := skip(conn)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			i.say(conn, bgp.NewBGPNotificationMessage(bgp.BGP_ERROR_HOLD_TIMER_EXPIRED, 0, nil))
		}
		if err != nil {
			return
		}
		if heard > 0 {
			i.say(conn, bgp.NewBGPKeepAliveMessage())
		}
	}
}

func (i *impatient) open() *bgp.BGPMessage {
	m, err := bgp.NewBGPOpenMessage(routerAS%65536, uint16(impatience/time.Second), netip.MustParseAddr("192.0.2.2"), nil)
	if err != nil {
		i.t.Error(err)
	}
	return m
}

func (i *impatient) say(w io.Writer, m *bgp.BGPMessage) {
	b, err := m.Serialize()
	if err != nil {
		i.t.Error(err)
	}
	_, _ = w.Write(b) // fails if the speaker has closed the connection
}

// skip reads one message.
func skip(r io.Reader) error {
	header := make([]byte, bgp.BGP_HEADER_LENGTH)
	if _, err := io.ReadFull(r, header); err != nil {
		return err
	}
	var h bgp.BGPHeader
	if err := h.DecodeFromBytes(header); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, r, int64(h.Len)-bgp.BGP_HEADER_LENGTH)
	return err
}

func TestASessionBeginsAfterTheRouterClosedTheConnection(t *testing.T) {
	w := newWorld(t)
	n := w.machine()
	router := impatient{t: t}
	n.Do(func() {
		var err error
		if router.listener, err = net.Listen("tcp", "192.0.2.2:179"); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { router.listener.Close() })
	go router.serve()

	s := newServer(t)
	apply(t, s, state(peer("192.0.2.2")))
	// The router opens a second connection and closes it. GoBGP pauses, and keeps the connection
	// that it opened itself.
	bgptest.Await(t, "the connection that the router closes", "closed", func() string {
		var conn net.Conn
		var err error
		n.Do(func() { conn, err = net.DialTimeout("tcp", "192.0.2.1:179", time.Second) })
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		if err := skip(conn); err != nil { // its OPEN
			return err.Error()
		}
		return "closed"
	})
	neighborIs(t, s, "192.0.2.2", "up", func(n peering.NeighborStatus) bool {
		return n.State == peering.Established && time.Since(n.UpSince) > 2*time.Second
	})
}

func TestANeighborThatCannotBeAddedAgainIsRetried(t *testing.T) {
	w := newWorld(t)
	here, far := bgptest.Here(t), linkLocal(w.machine())
	s := newServer(t)
	apply(t, s, state(unnumbered(peer("192.0.2.2"), far)))

	// GoBGP refuses the neighbor while the link has no link-local address.
	here.IP("link set eth0 down")
	s.events.lost <- netip.MustParseAddr(far + "%eth0")
	count := func() string { return strconv.Itoa(len(neighbors(t, s))) }
	bgptest.Await(t, "the number of neighbors", "0", count)
	here.IP("link set eth0 up")
	bgptest.Await(t, "the number of neighbors", "1", count)
}

// The server holds a neighbor down before it removes it. Here the removal does not happen.
func TestANeighborWhoseRemovalFailedIsAddedAgain(t *testing.T) {
	newWorld(t)
	s := newServer(t)
	p := peer("192.0.2.2")
	p.Password = "secret"
	apply(t, s, state(p))
	a := application{Server: s, ctx: t.Context()}
	expect.NoError(t, a.removePeer(s.found.peers[p.Name()]))
	held := s.found.peers[p.Name()]
	if !held.AdminDown || held.Password != "" {
		t.Errorf("the server remembers the neighbor as %+v, want it down without a password", held)
	}
	expect.NoError(t, a.addPeer(held))
	if err := s.renew(s.engine, p.Address); err != nil {
		t.Error(err)
	}
	if n := neighbors(t, s); len(n) != 1 || n[0].AdminDown || s.found.peers[p.Name()].Password == "" {
		t.Errorf("the neighbors are %+v, want one that is not down and has its password", n)
	}
}

// A router that resets its sessions, as by "clear bgp *", has the routes back within 1.8 s on a machine
// that is not busy. Without a renewal GoBGP would pause for 5 s.
func TestASessionThatTheRouterResetsIsBackAtOnce(t *testing.T) {
	for _, port := range []int{179, -1} {
		t.Run(fmt.Sprintf("port %d", port), func(t *testing.T) {
			w := newWorld(t)
			router := w.frr("192.0.2.1")
			s := announcing(t, "198.51.100.1/32")
			wanted := state(peer("192.0.2.2"))
			wanted.Global.Port = port
			wanted.Peers[0].Timers.ConnectRetry = 10 * time.Second
			apply(t, s, wanted)
			router.Await("198.51.100.1/32 via 192.0.2.1")
			monitor, back := router.Monitor(), []string(nil)
			best := time.Hour
			for i := range 2 {
				time.Sleep(time.Duration(i) * renewPause)
				router.Ask("clear bgp *")
				began := time.Now()
				back = append(back, "delete 198.51.100.1/32 via 192.0.2.1", "add 198.51.100.1/32 via 192.0.2.1")
				bgptest.Await(t, "the events of the route", fmt.Sprint(back), func() string { return fmt.Sprint(monitor.Events(t)) })
				best = min(best, time.Since(began))
			}
			t.Logf("the routes were back after %v", best.Round(10*time.Millisecond))
			if best > 3*time.Second {
				t.Errorf("the routes were back after %v at best", best)
			}
			if n := established(t, s, "192.0.2.2"); n.Flaps != 2 {
				t.Errorf("%d flaps are counted, want 2", n.Flaps)
			}
		})
	}
}

// A router that restarts has the routes within a second after it begins to connect. Without a renewal GoBGP would
// refuse its connections for 5 s, each time. One try in a hundred takes as long on a busy machine: both sides may
// connect at the same moment (RFC 4271, section 6.8), and GoBGP pauses after a connection that was closed.
func TestARouterThatRestartsHasTheRoutesAtOnce(t *testing.T) {
	w := newWorld(t)
	router := w.frr("192.0.2.1")
	s := announcing(t, "198.51.100.1/32")
	wanted := state(graceful(peer("192.0.2.2")))
	wanted.Peers[0].Timers.ConnectRetry = 10 * time.Second
	apply(t, s, wanted)
	router.Await("198.51.100.1/32 via 192.0.2.1")
	for range 3 {
		router.Kill()
		neighborIs(t, s, "192.0.2.2", "down", func(n peering.NeighborStatus) bool { return n.State != peering.Established })
		router = bgptest.FRR(t, router.Namespace, fmt.Sprintf("router bgp %d\n bgp router-id 192.0.2.2\n no bgp ebgp-requires-policy\n neighbor 192.0.2.1 remote-as %d\n neighbor 192.0.2.1 timers connect 1\n", routerAS, ourAS))
		began := time.Now()
		router.AwaitSays("show bgp ipv4 unicast", "198.51.100.1/32")
		took := time.Since(began)
		t.Logf("the routes were back after %v", took.Round(10*time.Millisecond))
		if took < 3*time.Second {
			return
		}
		time.Sleep(renewPause)
	}
	t.Error("the routes were back late each time")
}

// The node uses routes of a router that restarts gracefully. A renewal would remove them.
func TestRoutesOfARouterThatRestartsStay(t *testing.T) {
	w := newWorld(t)
	config := []string{" bgp graceful-restart", " bgp graceful-restart preserve-fw-state", " address-family ipv4 unicast", "  network 203.0.113.0/24"}
	router := w.frr("192.0.2.1", config...)
	s := newServer(t)
	apply(t, s, state(graceful(peer("192.0.2.2"))))
	const learned = "203.0.113.0/24 via 192.0.2.2 from 192.0.2.2"
	await(t, s, learned)
	router.Kill()
	neighborIs(t, s, "192.0.2.2", "down", func(n peering.NeighborStatus) bool { return n.State != peering.Established })
	for range 10 {
		await(t, s, learned)
		time.Sleep(100 * time.Millisecond)
	}
}
