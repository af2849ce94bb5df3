package bfd

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// ether is a simulated wire. A packet arrives after a delay at the node with its destination
// address.
type ether struct {
	delay time.Duration
	mu    sync.Mutex
	nodes map[netip.Addr]*node
}

// node is the network of one engine on the ether.
type node struct {
	ether *ether
	addr  netip.Addr // as other nodes see it
	hops  int

	// mu guards the fields that packets and tests change while the engine runs.
	mu                 sync.Mutex
	cut                bool
	listenErr, sendErr error

	ready   func()
	frozen  bool // packets wait in the kernel
	waiting []arrival
	taking  bool
	listens int

	mouths   int
	dials    int
	sentTo   map[netip.Addr]int
	lastSent []control
}

func newEther() *ether { return &ether{delay: ms, nodes: map[netip.Addr]*node{}} }

func (e *ether) node(addr string) *node {
	n := &node{ether: e, addr: netip.MustParseAddr(addr), hops: hops, sentTo: map[netip.Addr]int{}}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nodes[n.addr] = n
	return n
}

// at returns the node that has an address, or nil.
func (e *ether) at(addr netip.Addr) *node {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.nodes[addr]
}

// set changes the node under its lock.
func (n *node) set(change func(*node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
}

// isCut reports whether the wire of n is cut in both directions.
func (n *node) isCut() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut
}

func (n *node) listen(_, _ bool, ready func()) (ear, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listenErr != nil {
		return nil, n.listenErr
	}
	n.ready = ready
	n.listens++
	return n, nil
}

func (n *node) take(hear func(arrival)) bool {
	n.mu.Lock()
	if n.frozen {
		n.mu.Unlock()
		return false
	}
	taken := n.waiting
	n.waiting, n.taking = nil, true
	n.mu.Unlock()
	for _, a := range taken {
		hear(a)
	}
	n.mu.Lock()
	n.taking = false
	n.mu.Unlock()
	return false
}

func (n *node) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.taking {
		panic("closed during a read")
	}
	n.listens--
	return nil
}

func (n *node) dial(s Session) (mouth, error) {
	n.mouths++
	n.dials++
	return &fakeMouth{n, s.key()}, nil
}

type fakeMouth struct {
	*node
	to netip.Addr
}

func (m *fakeMouth) Close() error { m.mouths--; return nil }

func (m *fakeMouth) send(packet []byte) error {
	m.mu.Lock()
	failure := m.sendErr
	m.mu.Unlock()
	if failure != nil {
		return failure
	}
	c, err := decode(packet)
	if err != nil {
		return err
	}
	m.sentTo[m.to]++
	m.lastSent = append(m.lastSent, c)
	there := m.ether.at(m.to.WithZone(""))
	a := arrival{from: m.addr, to: m.to.WithZone(""), link: "eth0", hops: m.hops, packet: slices.Clone(packet)}
	time.AfterFunc(m.ether.delay, func() {
		if there != nil && !m.isCut() && !there.isCut() {
			there.arrive(a)
		}
	})
	return nil
}

// arrive delivers a packet. Only one goroutine of a test runs at a time.
func (n *node) arrive(a arrival) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listens == 0 {
		return
	}
	n.waiting = append(n.waiting, a)
	if !n.frozen {
		n.ready()
	}
}

func (n *node) thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.frozen = false
	n.ready()
}
