package gossip

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"purelb.io/purelb/internal/nodes/detector"
)

// served is how many incoming streams this process serves at once.
const served = 256

// carrier sends and receives the packets and streams of gossip.
type carrier interface {
	// poll passes each received packet to hand. The next packet overwrites the same buffer.
	poll(hand func(packet []byte, from netip.AddrPort))
	// send sends a packet. A lost packet is no error.
	send(packet []byte, to netip.AddrPort) error
	// dial opens a stream.
	dial(addr string, timeout time.Duration) (net.Conn, error)
	// accept passes the streams that other agents open to serve, until the carrier is closed.
	accept(serve func(net.Conn))
	// rest sleeps for d.
	rest(d time.Duration)
	close() error
}

// sealed is the transport of the library. It encrypts all that it carries.
type sealed struct {
	carrier carrier
	bind    netip.AddrPort
	look    func(packet []byte) // called with the plain text of every packet
	keys    *keyring
	counts  *Health
	packets chan *memberlist.Packet
	streams chan net.Conn
	places  chan struct{} // one element for each stream being served
	done    chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
}

var _ memberlist.Transport = (*sealed)(nil)

func newSealed(c carrier, bind netip.AddrPort, k *keyring, counts *Health, look func([]byte)) *sealed {
	s := &sealed{
		carrier: c, bind: bind, look: look, keys: k, counts: counts,
		packets: make(chan *memberlist.Packet, 1024),
		streams: make(chan net.Conn),
		places:  make(chan struct{}, served),
		done:    make(chan struct{}),
	}
	s.wg.Go(func() { c.accept(s.openStream) })
	return s
}

// poll reads the received packets. It passes the heartbeats for this process to hand, and
// the other packets to the library.
func (s *sealed) poll(self detector.PeerID, hand func(detector.Heartbeat)) {
	s.carrier.poll(func(packet []byte, from netip.AddrPort) {
		s.counts.BytesIn.Add(uint64(len(packet)))
		switch {
		case len(packet) > 0 && later(packet[0], heartbeatFormat):
			s.keys.strangers.note(from.Addr().Unmap().String(), "packet", packet[0])
		case len(packet) > 0 && packet[0] == heartbeatFormat:
			if h, err := s.keys.verify(packet, self); err == nil {
				hand(h)
			}
		default:
			s.openPacket(packet, from)
		}
	})
}

func (s *sealed) openPacket(packet []byte, from netip.AddrPort) {
	plain, err := s.keys.openPacket(packet)
	if err != nil || len(plain) == 0 {
		return
	}
	s.look(plain)
	select {
	case <-s.done:
	case s.packets <- &memberlist.Packet{Buf: plain, From: net.UDPAddrFromAddrPort(from), Timestamp: time.Now()}:
	}
}

// say sends a heartbeat. The network may lose it, like any packet.
func (s *sealed) say(out detector.Outgoing) {
	_ = s.send(s.keys.sign(out.Heartbeat, out.To.ID), out.To.Address)
}

// send sends a packet. It returns the error of the carrier unchanged. The library derives from that
// error on which side the fault is.
func (s *sealed) send(packet []byte, to netip.AddrPort) error {
	s.counts.PacketsOut.Add(1)
	s.counts.BytesOut.Add(uint64(len(packet)))
	return s.carrier.send(packet, to)
}

// openStream gives a stream that another agent opened to the library.
func (s *sealed) openStream(conn net.Conn) {
	select {
	case s.places <- struct{}{}:
	default:
		s.counts.RefusedStreams.Add(1)
		_ = conn.Close()
		return
	}
	st := newStream(conn, s.keys, fromCaller, fromListener, func() { <-s.places })
	select {
	case <-s.done:
		_ = st.Close()
	case s.streams <- st:
	}
}

// FinalAdvertiseAddr returns the address at which other agents reach this one.
func (s *sealed) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return s.bind.Addr().AsSlice(), int(s.bind.Port()), nil
}

// WriteTo seals and sends a packet.
func (s *sealed) WriteTo(plain []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, fmt.Errorf("send a packet: %w", err)
	}
	s.look(plain)
	return time.Now(), s.send(s.keys.sealPacket(plain), netip.AddrPortFrom(to.Addr().Unmap(), to.Port()))
}

// DialTimeout opens a stream. All reads and writes on it must end within timeout too.
func (s *sealed) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	if timeout <= 0 {
		return nil, os.ErrDeadlineExceeded // to a dialer, 0 means no limit
	}
	conn, err := s.carrier.dial(addr, timeout)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return newStream(conn, s.keys, fromListener, fromCaller, func() {}), nil
}

// PacketCh delivers the plain text of packets that were sealed.
func (s *sealed) PacketCh() <-chan *memberlist.Packet { return s.packets }

// StreamCh delivers streams that read and write sealed records only.
func (s *sealed) StreamCh() <-chan net.Conn { return s.streams }

// Shutdown closes the carrier.
func (s *sealed) Shutdown() error {
	s.once.Do(func() { close(s.done) })
	err := s.carrier.close()
	s.wg.Wait()
	return err
}
