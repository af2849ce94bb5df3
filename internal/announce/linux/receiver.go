package linux

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// receiveAgain is the pause after an error of a socket.
const receiveAgain = time.Second

// receiver receives the claims and questions of stations about addresses, for all listeners.
//
// The sockets are opened at the start, because the thread that opens them decides which
// namespace they listen in. They cost nothing while there is no listener.
type receiver struct {
	log     *slog.Logger
	sockets []*packetSocket // by family: IPv4, IPv6
	readers sync.WaitGroup
	closed  chan struct{}

	// mu orders the reading of packets and the changes of listeners. So all listeners get a
	// packet, or none does.
	mu        sync.Mutex
	listeners map[*listener]bool
}

// listener receives the claims and questions of stations.
type listener struct {
	// scope is the set of packets to receive, by family.
	scope [2]scope
	// hear is called for one packet after the other. It must not wait, and must ignore
	// packets outside its scope.
	hear func(said)
}

// scope is what a listener listens for in one family: packets on these links about
// addresses whose numbers are in a span. Without links it is empty.
type scope struct {
	links []int
	about span
}

// span is a range of numbers, including both ends.
type span struct{ first, last uint32 }

// add adds an address with this number on a link.
func (s *scope) add(link int, number uint32) {
	if len(s.links) == 0 {
		s.about = span{number, number}
	}
	s.about = span{min(s.about.first, number), max(s.about.last, number)}
	if !slices.Contains(s.links, link) {
		s.links = append(s.links, link)
	}
}

// The indexes of the families.
const indexIPv4, indexIPv6 = 0, 1

func openReceiver(log *slog.Logger) (*receiver, error) {
	r := &receiver{log: log, closed: make(chan struct{}), listeners: make(map[*listener]bool)}
	for _, protocol := range []uint16{indexIPv4: unix.ETH_P_ARP, indexIPv6: unix.ETH_P_IPV6} {
		p, err := openPacketSocket(protocol)
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.sockets = append(r.sockets, p)
		r.readers.Go(func() { r.read(p) })
	}
	return r, nil
}

func (r *receiver) close() error {
	close(r.closed)
	var errs []error
	for _, p := range r.sockets {
		errs = append(errs, p.file.Close())
	}
	r.readers.Wait()
	return errors.Join(errs...)
}

// read passes on what p receives until p is closed.
func (r *receiver) read(p *packetSocket) {
	for {
		var err error
		waitErr := p.raw.Read(func(fd uintptr) bool {
			err = r.take(p, int(fd))
			return err != nil
		})
		select {
		case <-r.closed:
			return
		case <-time.After(receiveAgain):
		}
		r.log.WarnContext(context.Background(), "packetsNotReceived", "error", errors.Join(waitErr, err))
	}
}

func (r *receiver) take(p *packetSocket, fd int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return p.take(fd, r.deliver)
}

func (r *receiver) deliver(w said) {
	for l := range r.listeners {
		l.hear(w)
	}
}

// catchUp passes on all packets that have already arrived. On a busy machine, packets may wait for
// a while before they are read.
func (r *receiver) catchUp() error {
	var errs []error
	for _, p := range r.sockets {
		errs = append(errs, p.control(func(fd int) error { return r.take(p, fd) }))
	}
	return errors.Join(errs...)
}

// add makes l receive the packets in scope. Another call changes the scope.
func (r *receiver) add(l *listener, scope [2]scope) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.scope = scope
	r.listeners[l] = true
	return r.filter()
}

// remove makes l receive no more packets.
func (r *receiver) remove(l *listener) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.listeners, l)
	return r.filter()
}

// filter makes the sockets receive the scopes of all listeners.
func (r *receiver) filter() error {
	var errs []error
	for family, p := range r.sockets {
		var all scope
		for l := range r.listeners {
			for _, link := range l.scope[family].links {
				all.add(link, l.scope[family].about.first)
				all.add(link, l.scope[family].about.last)
			}
		}
		if err := p.filter(all); err != nil {
			errs = append(errs, fmt.Errorf("listen on the wire: %w", err))
		}
	}
	return errors.Join(errs...)
}
