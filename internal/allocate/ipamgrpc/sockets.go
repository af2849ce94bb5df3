// Package ipamgrpc claims addresses from IPAM servers: programs in the allocator's pod that serve
// purelb.ipam.v1.IPAM on a Unix socket.
//
// Read sockets.go (the connections), group.go (what the allocator calls), allocate.go and answer.go
// (from claims to calls, from answers to grants), fault.go (the meaning of errors).
//
// The protocol identifies an allocation by the pool and the service, not by the key of a claim. The
// service is a part of the key: the Service, or the sharing key, in its namespace. This has two
// consequences. Both families of a Service are one allocation, so their claims are one call. And
// the protocol does not transmit the name of the cluster: a server for several clusters must know
// which of them uses a socket.
//
// The package keeps connections and nothing else: no claim, no grant, no queue. It repeats
// no call by itself.
package ipamgrpc

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Observer is called for each call with its socket, its full method, the name of its code
// and its duration. It must not block.
type Observer func(socket, method, code string, took time.Duration)

// Sockets are the connections to IPAM servers, one for each socket. Groups share them. It
// is safe for concurrent use.
type Sockets struct {
	observe Observer

	mu          sync.Mutex
	connections map[string]*connection
}

// NewSockets returns a Sockets without a connection.
func NewSockets(observe Observer) *Sockets {
	return &Sockets{observe: observe, connections: map[string]*connection{}}
}

// Group returns the backend of a ServiceGroup. pool is the name of the group in calls, and
// provider is the name of the server for people. Group dials nothing. The caller must close
// the backend.
func (s *Sockets) Group(socket, pool, provider string) (*Group, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.connections[socket]
	if c == nil {
		var err error
		if c, err = newConnection(socket, s.observe); err != nil {
			return nil, fmt.Errorf("prepare the connection to the IPAM server on %s: %w", socket, err)
		}
		s.connections[socket] = c
	}
	c.users++
	g := &Group{connection: c, pool: pool, provider: provider}
	g.close = sync.OnceValue(func() error { return s.leave(c) })
	return g, nil
}

// leave removes a user from a connection. The last one closes it.
func (s *Sockets) leave(c *connection) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.users--; c.users > 0 || s.connections[c.socket] != c {
		return nil
	}
	delete(s.connections, c.socket)
	return c.Close()
}

// Close closes all connections. Calls in flight fail.
func (s *Sockets) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, c := range s.connections {
		errs = append(errs, c.Close())
	}
	clear(s.connections)
	return errors.Join(errs...)
}
