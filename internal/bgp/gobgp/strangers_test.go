package gobgp

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/bgptest"
)

// The server listens at all addresses of the node, and Services have some of them. So any client
// of a Service can connect to the BGP port.
func TestUnknownClientsGetNoDataFromTheBGPPort(t *testing.T) {
	w := newWorld(t)
	const service = "198.51.100.9"
	bgptest.Here(t).IP("link set lo up\naddress add " + service + "/32 dev lo")
	stranger := w.machine()
	stranger.IP("route add " + service + "/32 via 192.0.2.1")
	dial := func(address string) (said []byte, err error) {
		stranger.Do(func() {
			var conn net.Conn
			if conn, err = net.DialTimeout("tcp", net.JoinHostPort(address, "179"), bgptest.Patience); err != nil {
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(bgptest.Patience))
			said = make([]byte, 64)
			n := 0
			if n, err = conn.Read(said); errors.Is(err, io.EOF) {
				err = nil
			}
			said = said[:n]
		})
		return said, err
	}
	s := newServer(t)
	wanted := state(peer("192.0.2.77"))
	apply(t, s, wanted)
	for _, a := range []string{"192.0.2.1", service} {
		if said, err := dial(a); len(said) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s sends %x, %v; want no data", a, said, err)
		}
	}
	wanted.Global.Listen = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	apply(t, restarted(t, s, wanted), wanted)
	if _, err := dial(service); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("with listenAddresses, a connection to the address of a Service ends with %v", err)
	}
	if said, err := dial("192.0.2.1"); len(said) > 0 || errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("with listenAddresses, the node's own address sends %x, %v; want no data", said, err)
	}
}
