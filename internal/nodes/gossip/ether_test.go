package gossip

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// ether is a network in memory. It can turn off a machine, pause a machine, and separate machines.
// Like a real network, it does not report lost packets.
type ether struct {
	latency time.Duration
	mu      sync.Mutex
	ports   map[string]*port
	// side is the side of a port when the network is cut. All ports are on side 0 at first.
	side map[*port]int
	// lost is the percentage of lost packets. deaf contains pairs of a sender and a receiver: the
	// receiver gets no packet of the sender.
	lost int
	deaf map[[2]*port]bool
}

func newEther() *ether {
	return &ether{latency: 200 * time.Microsecond, ports: map[string]*port{}, side: map[*port]int{}, deaf: map[[2]*port]bool{}}
}

// port is the connection of one machine to the ether: the transport of its gossip.
type port struct {
	ether   *ether
	addr    netip.AddrPort
	packets chan *memberlist.Packet
	streams chan net.Conn
	closed  chan struct{}

	// The lock of the ether guards these fields.
	off   bool
	awake time.Time // the machine is paused until then
	tap   func(to *port, packet []byte)
	drop  func(packet []byte) bool
}

func (e *ether) port(i int) *port {
	p := &port{
		ether: e, addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 7934),
		packets: make(chan *memberlist.Packet, 4096),
		streams: make(chan net.Conn, 64),
		closed:  make(chan struct{}),
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ports[p.addr.String()] = p
	return p
}

// set changes the port under the lock of the ether.
func (p *port) set(change func()) {
	p.ether.mu.Lock()
	defer p.ether.mu.Unlock()
	change()
}

// lose sets the percentage of lost packets.
func (e *ether) lose(percent int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost = percent
}

// mute drops all packets from one port to the other.
func (e *ether) mute(from, to *port) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deaf[[2]*port{from, to}] = true
}

// fails reports whether the ether loses the packet.
func (p *port) fails(packet []byte, addr string) bool {
	p.ether.mu.Lock()
	defer p.ether.mu.Unlock()
	return rand.IntN(100) < p.ether.lost || p.ether.deaf[[2]*port{p, p.ether.ports[addr]}] || p.drop != nil && p.drop(packet)
}

func (p *port) powerOff()            { p.set(func() { p.off = true }) }
func (p *port) hold(d time.Duration) { p.set(func() { p.awake = time.Now().Add(d) }) }
func (p *port) putOnSide(side int)   { p.set(func() { p.ether.side[p] = side }) }

// way returns the port at addr and the delay to it, or nil if nothing reaches it.
func (p *port) way(addr string) (to *port, delay time.Duration) {
	p.ether.mu.Lock()
	defer p.ether.mu.Unlock()
	to = p.ether.ports[addr]
	if to == nil || p.off || to.off || p.ether.side[p] != p.ether.side[to] {
		return nil, 0
	}
	return to, p.ether.latency + max(0, time.Until(p.awake), time.Until(to.awake))
}

func (p *port) send(packet []byte, addr netip.AddrPort) error {
	if p.fails(packet, addr.String()) {
		return nil
	}
	if to, delay := p.way(addr.String()); to != nil {
		p.overhear(to, packet)
		time.AfterFunc(delay, func() { to.deliver(packet, p) })
	}
	return nil
}

// overhear passes a packet to the tap. The tap gets one packet at a time.
func (p *port) overhear(to *port, packet []byte) {
	p.ether.mu.Lock()
	defer p.ether.mu.Unlock()
	if p.tap != nil {
		p.tap(to, packet)
	}
}

// rest sleeps in the time of the bubble.
func (p *port) rest(d time.Duration) { time.Sleep(d) }

func (p *port) poll(hand func([]byte, netip.AddrPort)) {
	for {
		select {
		case got := <-p.packets:
			hand(got.Buf, got.From.(*net.UDPAddr).AddrPort())
		default:
			return
		}
	}
}

func (p *port) deliver(packet []byte, from *port) {
	select {
	case p.packets <- &memberlist.Packet{Buf: packet, From: net.UDPAddrFromAddrPort(from.addr), Timestamp: time.Now()}:
	default: // its queue is full
	}
}

func (p *port) dial(addr string, timeout time.Duration) (net.Conn, error) {
	to, delay := p.way(addr)
	if to == nil || delay >= timeout {
		time.Sleep(timeout)
		return nil, fmt.Errorf("dial %s: %w", addr, errors.ErrUnsupported)
	}
	time.Sleep(delay)
	here, there := net.Pipe()
	select {
	case to.streams <- there:
		return here, nil
	default:
		return nil, fmt.Errorf("dial %s: refused", addr)
	}
}

func (p *port) accept(serve func(net.Conn)) {
	for {
		select {
		case conn := <-p.streams:
			serve(conn)
		case <-p.closed:
			return
		}
	}
}

func (p *port) close() error {
	close(p.closed)
	return nil
}
