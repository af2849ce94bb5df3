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

// hearAgain is the pause after an error of a socket.
const hearAgain = time.Second

// ears receives the claims and questions of stations about addresses, for all listeners.
//
// The sockets are opened at the start, because the thread that opens them decides which
// namespace they listen in. They cost nothing while there is no listener.
type ears struct {
	log     *slog.Logger
	each    []*ear // by family: IPv4, IPv6
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
// addresses with these numbers.
type scope struct {
	links   []int
	numbers []uint32
}

// The indexes of the families.
const earIPv4, earIPv6 = 0, 1

func openEars(log *slog.Logger) (*ears, error) {
	s := &ears{log: log, closed: make(chan struct{}), listeners: make(map[*listener]bool)}
	for _, protocol := range []uint16{earIPv4: unix.ETH_P_ARP, earIPv6: unix.ETH_P_IPV6} {
		e, err := openEar(protocol)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.each = append(s.each, e)
		s.readers.Go(func() { s.read(e) })
	}
	return s, nil
}

func (s *ears) close() error {
	close(s.closed)
	var errs []error
	for _, e := range s.each {
		errs = append(errs, e.file.Close())
	}
	s.readers.Wait()
	return errors.Join(errs...)
}

// read passes on what e receives until e is closed.
func (s *ears) read(e *ear) {
	for {
		var err error
		waitErr := e.raw.Read(func(fd uintptr) bool {
			err = s.take(e, int(fd))
			return err != nil
		})
		select {
		case <-s.closed:
			return
		case <-time.After(hearAgain):
		}
		s.log.WarnContext(context.Background(), "hearing what is said on the wire", "error", errors.Join(waitErr, err))
	}
}

func (s *ears) take(e *ear, fd int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.take(fd, s.tell)
}

func (s *ears) tell(w said) {
	for l := range s.listeners {
		l.hear(w)
	}
}

// catchUp passes on all packets that have already arrived. On a busy machine, packets may wait for
// a while before they are read.
func (s *ears) catchUp() error {
	var errs []error
	for _, e := range s.each {
		errs = append(errs, e.control(func(fd int) error { return s.take(e, fd) }))
	}
	return errors.Join(errs...)
}

// attend makes l receive the packets in scope. Another call changes the scope.
func (s *ears) attend(l *listener, scope [2]scope) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.scope = scope
	s.listeners[l] = true
	return s.aim()
}

// leave makes l receive no more packets.
func (s *ears) leave(l *listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listeners, l)
	return s.aim()
}

// aim makes the ears receive the scopes of all listeners.
func (s *ears) aim() error {
	var errs []error
	for family, e := range s.each {
		var all scope
		for l := range s.listeners {
			all.links = append(all.links, l.scope[family].links...)
			all.numbers = append(all.numbers, l.scope[family].numbers...)
		}
		slices.Sort(all.links)
		if err := e.aim(slices.Compact(all.links), all.numbers); err != nil {
			errs = append(errs, fmt.Errorf("listen on the wire: %w", err))
		}
	}
	return errors.Join(errs...)
}
