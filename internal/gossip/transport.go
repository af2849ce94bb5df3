package gossip

import (
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"purelb.io/purelb/internal/detector"
)

// served is how many streams of others are served at once.
const served = 256

// carrier is what gossip goes over.
type carrier interface {
	memberlist.Transport
	// poll hands over the packets that have come. What a packet is in is used
	// for the next one.
	poll(hand func(packet []byte, from netip.AddrPort))
	// send sends a packet. That it is lost is no error.
	send(packet []byte, to netip.AddrPort) error
	// rest waits.
	rest(d time.Duration)
}

// sealed is a transport that carries only what is sealed.
type sealed struct {
	carrier carrier
	look    func(packet []byte) // is shown the plain text of every packet
	keys    *keyring
	counts  *counters
	packets chan *memberlist.Packet
	streams chan net.Conn
	places  chan struct{} // one for each stream that is served
	done    chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
}

var _ memberlist.NodeAwareTransport = (*sealed)(nil)

func newSealed(c carrier, k *keyring, counts *counters, look func([]byte)) *sealed {
	s := &sealed{
		carrier: c, look: look, keys: k, counts: counts,
		packets: make(chan *memberlist.Packet, 1024),
		streams: make(chan net.Conn),
		places:  make(chan struct{}, served),
		done:    make(chan struct{}),
	}
	s.wg.Go(s.openStreams)
	return s
}

// poll takes the packets that have come: it hands over the heartbeats for this process, and
// gives the library the rest.
func (s *sealed) poll(self detector.PeerID, hand func(detector.Heartbeat)) {
	s.carrier.poll(func(packet []byte, from netip.AddrPort) {
		s.counts.packetsIn.Add(1)
		s.counts.bytesIn.Add(uint64(len(packet)))
		switch {
		case len(packet) > 0 && later(packet[0], heartbeatFormat2):
			s.keys.strangers.noteAddress(from.Addr().Unmap().String(), "packet", packet[0])
		case len(packet) > 0 && (packet[0] == heartbeatFormat1 || packet[0] == heartbeatFormat2):
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

// say sends a heartbeat. Like all packets it may be lost.
func (s *sealed) say(out detector.Outgoing) {
	packet := s.keys.sign(out.Heartbeat, out.To.ID, out.To.Version)
	s.counts.packetsOut.Add(1)
	s.counts.bytesOut.Add(uint64(len(packet)))
	_ = s.carrier.send(packet, out.To.Address)
}

func (s *sealed) openStreams() {
	for {
		select {
		case <-s.done:
			return
		case conn := <-s.carrier.StreamCh():
			s.openStream(conn)
		}
	}
}

func (s *sealed) openStream(conn net.Conn) {
	select {
	case s.places <- struct{}{}:
	default:
		s.counts.refusedStreams.Add(1)
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

// FinalAdvertiseAddr is where the carrier is reached.
func (s *sealed) FinalAdvertiseAddr(ip string, port int) (net.IP, int, error) {
	return s.carrier.FinalAdvertiseAddr(ip, port)
}

// WriteTo sends a packet. It returns the error of the carrier as it is, from
// which the library learns on which side the fault lies.
func (s *sealed) WriteTo(plain []byte, addr string) (time.Time, error) {
	s.look(plain)
	packet := s.keys.sealPacket(plain)
	s.counts.packetsOut.Add(1)
	s.counts.bytesOut.Add(uint64(len(packet)))
	return s.carrier.WriteTo(packet, addr)
}

// WriteToAddress sends a packet. It goes by the address alone: the name of a
// member says nothing to a carrier.
func (s *sealed) WriteToAddress(plain []byte, addr memberlist.Address) (time.Time, error) {
	return s.WriteTo(plain, addr.Addr)
}

// DialTimeout opens a stream, which must be done within timeout too.
func (s *sealed) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	if timeout <= 0 {
		return nil, os.ErrDeadlineExceeded // to a dialer, 0 is no limit
	}
	conn, err := s.carrier.DialTimeout(addr, timeout)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return newStream(conn, s.keys, fromListener, fromCaller, func() {}), nil
}

// DialAddressTimeout opens a stream, by the address alone.
func (s *sealed) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return s.DialTimeout(addr.Addr, timeout)
}

// PacketCh delivers packets that were sealed.
func (s *sealed) PacketCh() <-chan *memberlist.Packet { return s.packets }

// StreamCh delivers streams of which only what is sealed can be read.
func (s *sealed) StreamCh() <-chan net.Conn { return s.streams }

// Shutdown closes the carrier.
func (s *sealed) Shutdown() error {
	s.once.Do(func() { close(s.done) })
	err := s.carrier.Shutdown()
	s.wg.Wait()
	return err
}
