// Package segment is a station on one of the lab's Ethernet segments. Every few milliseconds it
// asks which station has an address, as any neighbor may, and records the hardware addresses that
// answer. It also reads the traffic to the router, and records the hardware addresses from which
// each address's traffic comes.
//
// The station is a separate machine. Its questions tell the watched machines only that it exists.
package segment

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"purelb.io/purelb/lab/cluster"
	"purelb.io/purelb/lab/internal/topology"
	"purelb.io/purelb/lab/internal/wire"
)

const (
	name = "station"
	// number is the number of the station in its subnet. Neither a machine nor a pool of a test
	// uses it.
	number = 98
	// every is the time between two questions for one address.
	every = 20 * time.Millisecond
)

// Watch is a station that watches addresses of one segment.
type Watch struct {
	net    wire.Net
	nic    topology.NIC
	names  map[MAC]string
	cancel context.CancelFunc
	close  func()
	done   sync.WaitGroup

	mu      sync.Mutex
	stories map[netip.Addr]*Story
	broken  error
}

// Start connects a station to the segment of the addresses, and watches them until Stop. Only one
// station can exist at a time.
func Start(ctx context.Context, c *cluster.Cluster, addresses ...netip.Addr) (*Watch, error) {
	s, err := segmentOf(addresses)
	if err != nil {
		return nil, err
	}
	w := &Watch{net: wire.Net(c.Spec.State.Netns()), nic: nic(s), names: map[MAC]string{}, stories: map[netip.Addr]*Story{}}
	router := ""
	for _, m := range c.Machines() {
		for _, n := range m.NICs {
			w.names[MAC(n.MAC())] = m.Name
			if m.Name == cluster.Router && n.Segment == s.Name {
				router = wire.Port(m.Name, n.Name)
			}
		}
	}
	for _, a := range addresses {
		w.stories[a] = &Story{Name: w.name}
	}
	w.unplug() // removes the station of an earlier run that was killed
	if err := w.net.BuildMachine(topology.Machine{Name: name, NICs: []topology.NIC{w.nic}}); err != nil {
		w.unplug()
		return nil, fmt.Errorf("station on %s: %w", s.Name, err)
	}
	if err := w.run(ctx, router, addresses); err != nil {
		w.unplug()
		return nil, fmt.Errorf("station on %s: %w", s.Name, err)
	}
	return w, nil
}

func (w *Watch) run(ctx context.Context, router string, addresses []netip.Addr) error {
	own, err := listen(w.net.Netns(name), w.nic.Name)
	if err != nil {
		return err
	}
	passing, err := listen(w.net.Netns(wire.Switch), router)
	if err != nil {
		own.close()
		return err
	}
	ctx, w.cancel = context.WithCancel(ctx)
	w.done.Go(func() { w.hear(ctx, own, w.answers) })
	w.done.Go(func() { w.hear(ctx, passing, w.traffic) })
	w.done.Go(func() { w.ask(ctx, own, addresses) })
	w.close = func() {
		own.close()
		passing.close()
	}
	return nil
}

// Stop ends the watch and removes the station.
func (w *Watch) Stop() error {
	w.cancel()
	w.done.Wait()
	w.close()
	w.unplug()
	return w.broken
}

// Story returns the observations about an address since a time.
func (w *Watch) Story(a netip.Addr, from time.Time) Story {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stories[a]
	if s == nil {
		return Story{Name: w.name}
	}
	part := s.Since(from)
	return Story{Rounds: slices.Clone(part.Rounds), Traffic: slices.Clone(part.Traffic), Name: s.Name}
}

func (w *Watch) name(mac MAC) string {
	if n, ok := w.names[mac]; ok {
		return n
	}
	return mac.String()
}

// unplug removes the station if it exists.
func (w *Watch) unplug() {
	_ = w.net.Unplug(name, []topology.NIC{w.nic})
	_ = w.net.Delete(name)
}

// ask asks for each address once in every interval.
func (w *Watch) ask(ctx context.Context, s *socket, addresses []netip.Addr) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, a := range addresses {
			w.mu.Lock()
			w.stories[a].asked(time.Now())
			w.mu.Unlock()
			if err := s.send(question(w.nic, a)); err != nil {
				w.fail(fmt.Errorf("ask for %s: %w", a, err))
			}
		}
	}
}

// hear passes received frames on.
func (w *Watch) hear(ctx context.Context, s *socket, to func(time.Time, []byte)) {
	for ctx.Err() == nil {
		at, frame, err := s.receive()
		if err != nil {
			w.fail(err)
			return
		}
		if frame != nil {
			to(at, frame)
		}
	}
}

func (w *Watch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == nil {
		w.broken = err
	}
}

func (w *Watch) answers(at time.Time, frame []byte) {
	a, mac, ok := answer(frame, w.nic)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.stories[a]; s != nil {
		s.answered(at, mac)
	}
}

func (w *Watch) traffic(at time.Time, frame []byte) {
	a, mac, ok := source(frame)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.stories[a]; s != nil {
		s.sent(at, mac)
	}
}

func segmentOf(addresses []netip.Addr) (topology.Segment, error) {
	for _, s := range topology.Segments {
		if !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return !s.V4.Contains(a) && !s.V6.Contains(a) }) {
			return s, nil
		}
	}
	return topology.Segment{}, fmt.Errorf("no segment has all of %v", addresses)
}

// nic returns the interface of the station.
func nic(s topology.Segment) topology.NIC {
	v4, v6 := s.V4.Addr().As4(), s.V6.Addr().As16()
	v4[3], v6[15] = number, number
	return topology.NIC{
		Name:    "eth0",
		Segment: s.Name,
		V4:      netip.PrefixFrom(netip.AddrFrom4(v4), s.V4.Bits()),
		V6:      netip.PrefixFrom(netip.AddrFrom16(v6), s.V6.Bits()),
	}
}
