package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// receiveBuffer is asked of the kernel for packets that wait for us. It
	// may give less.
	receiveBuffer = 1 << 20
	// pauseAfter is how long to wait after an error that may last.
	pauseAfter = 20 * time.Millisecond
)

// network is the UDP and the TCP port of this node. The library's own makes 64
// KiB of garbage for each packet of a hundred bytes.
type network struct {
	bind    netip.AddrPort
	udp     *net.UDPConn
	tcp     *net.TCPListener
	counts  *counters
	streams chan net.Conn
	ctx     context.Context // done when the network is shut down
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

var (
	_ memberlist.Transport = (*network)(nil)
	_ receiver             = (*network)(nil)
)

func listen(bind netip.AddrPort, counts *counters) (*network, error) {
	family := "4"
	if bind.Addr().Is6() {
		family = "6"
	}
	tcp, err := net.ListenTCP("tcp"+family, net.TCPAddrFromAddrPort(bind))
	if err != nil {
		return nil, err
	}
	udp, err := net.ListenUDP("udp"+family, net.UDPAddrFromAddrPort(bind))
	if err != nil {
		_ = tcp.Close()
		return nil, err
	}
	_ = udp.SetReadBuffer(receiveBuffer) // what the kernel gives must do
	n := &network{
		bind: bind, udp: udp, tcp: tcp, counts: counts,
		streams: make(chan net.Conn),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.wg.Go(n.accept)
	return n, nil
}

func (n *network) receive(hand func(*memberlist.Packet)) {
	// One byte more than anybody sends shows what is too long.
	buf := make([]byte, datagram+1)
	for {
		size, from, err := n.udp.ReadFromUDPAddrPort(buf)
		if err != nil {
			if n.ended(err) {
				return
			}
			continue
		}
		if size > datagram {
			n.counts.badFormat.Add(1)
			continue
		}
		hand(&memberlist.Packet{Buf: buf[:size], From: net.UDPAddrFromAddrPort(from), Timestamp: time.Now()})
	}
}

func (n *network) accept() {
	for {
		conn, err := n.tcp.Accept()
		if err != nil {
			if n.ended(err) {
				return
			}
			continue
		}
		select {
		case <-n.ctx.Done():
			_ = conn.Close()
			return
		case n.streams <- conn:
		}
	}
}

// ended says whether err is the end, and otherwise waits a little.
func (n *network) ended(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return true
	}
	select {
	case <-n.ctx.Done():
		return true
	case <-time.After(pauseAfter):
		return false
	}
}

// FinalAdvertiseAddr is the address that we listen on.
func (n *network) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return n.bind.Addr().AsSlice(), int(n.bind.Port()), nil
}

// WriteTo sends a packet.
func (n *network) WriteTo(packet []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, fmt.Errorf("send a packet: %w", err)
	}
	_, err = n.udp.WriteToUDPAddrPort(packet, netip.AddrPortFrom(to.Addr().Unmap(), to.Port()))
	return time.Now(), err
}

// DialTimeout opens a stream, from the address that the others know us by.
func (n *network) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout, LocalAddr: &net.TCPAddr{IP: n.bind.Addr().AsSlice()}}
	return d.DialContext(n.ctx, "tcp", addr)
}

// PacketCh delivers nothing: see receive.
func (n *network) PacketCh() <-chan *memberlist.Packet { return nil }

// StreamCh delivers streams.
func (n *network) StreamCh() <-chan net.Conn { return n.streams }

// Shutdown closes both ports.
func (n *network) Shutdown() error {
	n.cancel()
	err := errors.Join(n.udp.Close(), n.tcp.Close())
	n.wg.Wait()
	return err
}
