package speaker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/bgp/bfd"
	"purelb.io/purelb/internal/bgp/gobgp"
	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
)

// fakeServer is a BGP server whose neighbors are set by the test. A test can make it fail. It
// prints itself.
type fakeServer struct {
	mu      sync.Mutex
	state   peering.State
	running bool
	routes  map[netip.Prefix]peering.Route
	// began is the state of the server after the first Apply.
	began string
	// refusesPolicies lets Apply fail.
	refusesPolicies bool
	// stuck, if it is not nil, blocks Apply and Stop.
	stuck     chan struct{}
	refuse    []peering.Problem
	err       error
	applied   int
	neighbors map[string]peering.NeighborStatus
	learned   []peering.LearnedRoute
	// slow is the time that Learned takes.
	slow  time.Duration
	downs []string
	// barred records the neighbors that were barred and admitted.
	barred  []string
	stopped string
	// last are the routes before Stop.
	last string
	// stops counts the calls of Stop.
	stops  int
	events chan struct{}
}

func newFakeServer() *fakeServer {
	return &fakeServer{routes: map[netip.Prefix]peering.Route{}, neighbors: map[string]peering.NeighborStatus{}, events: make(chan struct{}, 1)}
}

func (s *fakeServer) Apply(ctx context.Context, wanted peering.State, restarting bool) ([]peering.Problem, error) {
	if err := s.unstuck(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.applied++
	if s.err != nil {
		return nil, s.err
	}
	if !s.running {
		s.began = fmt.Sprintf("began with %d routes, restarting %v", len(wanted.Routes), restarting)
	}
	if s.running && !reflect.DeepEqual(s.state.Global, wanted.Global) {
		return nil, gobgp.ErrRestart
	}
	if s.refusesPolicies { // it only withdraws
		maps.DeleteFunc(s.routes, func(key netip.Prefix, _ peering.Route) bool {
			return wanted.Routes != nil && !peering.Contains(key, wanted.Waiting) && !slices.ContainsFunc(wanted.Routes, func(r peering.Route) bool { return r.Prefix == key })
		})
		return nil, errFake
	}
	s.hold(wanted)
	s.announce(wanted)
	wanted.Routes, wanted.Waiting = nil, nil
	s.state, s.running, s.stopped = wanted, true, ""
	return s.refuse, nil
}

// unstuck waits until the server is no longer stuck.
func (s *fakeServer) unstuck(ctx context.Context) error {
	s.mu.Lock()
	stuck := s.stuck
	s.mu.Unlock()
	if stuck == nil {
		return nil
	}
	select {
	case <-stuck:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// announce makes wanted the routes, except for those that wait.
func (s *fakeServer) announce(wanted peering.State) {
	if wanted.Routes == nil {
		return
	}
	routes := map[netip.Prefix]peering.Route{}
	for key, r := range s.routes {
		if peering.Contains(key, wanted.Waiting) {
			routes[key] = r
		}
	}
	for _, r := range wanted.Routes {
		routes[r.Prefix] = r
	}
	s.routes = routes
}

func (s *fakeServer) Change(_ context.Context, add []peering.Route, withdraw []netip.Prefix) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	for _, r := range add {
		s.routes[r.Prefix] = r
	}
	for _, key := range withdraw {
		delete(s.routes, key)
	}
	return nil
}

func (s *fakeServer) Neighbors(context.Context) ([]peering.NeighborStatus, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []peering.NeighborStatus
	if !s.running {
		return nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.neighbors)) {
		all = append(all, s.neighbors[name])
	}
	return all, nil
}

func (s *fakeServer) Learned(context.Context) ([]peering.LearnedRoute, error) {
	s.mu.Lock()
	learned, slow := slices.Clone(s.learned), s.slow
	s.mu.Unlock()
	time.Sleep(slow)
	return learned, nil
}

func (s *fakeServer) Down(_ context.Context, neighbor netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.downs = append(s.downs, neighbor.String())
	return nil
}

// hold ends the sessions with neighbors that are down in wanted. It begins the sessions with
// neighbors that are no longer down in wanted.
func (s *fakeServer) hold(wanted peering.State) {
	held := map[string]bool{}
	for _, p := range wanted.Peers {
		held[p.Name()] = p.AdminDown
		if n, there := s.neighbors[p.Name()]; p.AdminDown && there && !n.AdminDown {
			n.State, n.AdminDown = peering.Idle, true
			s.neighbors[p.Name()] = n
			s.barred = append(s.barred, "bar "+p.Name())
		}
	}
	for _, p := range s.state.Peers {
		now, named := held[p.Name()]
		n, there := s.neighbors[p.Name()]
		switch {
		case !p.AdminDown || now || !there:
			continue
		case named:
			n.State, n.AdminDown, n.OverLimit, n.UpSince = peering.Established, false, false, time.Now()
			s.neighbors[p.Name()] = n
		default:
			delete(s.neighbors, p.Name()) // as GoBGP does with a neighbor without a configuration
		}
		s.barred = append(s.barred, "admit "+p.Name())
	}
}

func (s *fakeServer) Events() <-chan struct{} { return s.events }

func (s *fakeServer) Stop(ctx context.Context, graceful bool) error {
	if err := s.unstuck(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.routes = s.printRoutes(), map[netip.Prefix]peering.Route{}
	s.running, s.stopped = false, fmt.Sprintf("stopped, graceful %v", graceful)
	s.stops++
	return nil
}

// change changes the server from outside.
func (s *fakeServer) change(change func(*fakeServer)) {
	s.mu.Lock()
	change(s)
	s.mu.Unlock()
	backoff.Poke(s.events)
}

// announces prints the routes.
func (s *fakeServer) announces() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.printRoutes()
}

func (s *fakeServer) printRoutes() string {
	var lines []string
	for _, r := range s.routes {
		line := r.Prefix.String()
		for _, c := range r.Attributes.Communities {
			line += fmt.Sprintf(" %d:%d", c>>16, c&0xffff)
		}
		if r.Attributes.LocalPref != nil {
			line += fmt.Sprint(" pref ", *r.Attributes.LocalPref)
		}
		if r.Attributes.Weight > 0 {
			line += fmt.Sprint(" weight ", r.Attributes.Weight)
		}
		if r.Attributes.MED != nil {
			line += fmt.Sprint(" med ", *r.Attributes.MED)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

// String prints the sessions that the server should have.
func (s *fakeServer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running {
		return s.stopped
	}
	lines := []string{fmt.Sprintf("asn %d id %s", s.state.Global.ASN, s.state.Global.RouterID)}
	for _, p := range s.state.Peers {
		line := fmt.Sprintf("%s asn %d", p.Name(), p.ASN)
		for _, f := range slices.Sorted(maps.Keys(p.NextHops)) {
			line += " via " + p.NextHops[f].String()
		}
		if p.Password != "" {
			line += " md5 " + p.Password
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

// fakeBFD is BFD whose sessions the test brings up and down.
type fakeBFD struct {
	mu       sync.Mutex
	sessions []bfd.Session
	events   chan bfd.Event
	closed   bool
	err      error
}

func (b *fakeBFD) Set(_ context.Context, sessions []bfd.Session) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.sessions = slices.Clone(sessions)
	}
	return b.err
}

func (b *fakeBFD) Status() []bfd.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []bfd.Status
	for _, s := range b.sessions {
		all = append(all, bfd.Status{Session: s, State: bfd.Up})
	}
	return all
}

func (b *fakeBFD) Events() <-chan bfd.Event { return b.events }

func (b *fakeBFD) Close(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

// String prints the sessions.
func (b *fakeBFD) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, s := range b.sessions {
		text := fmt.Sprintf("%s %s x %d", s.Peer, s.MinTransmit, s.Multiplier)
		if s.Multihop {
			text += fmt.Sprint(" multihop ", s.MinTTL)
		}
		if s.Passive {
			text += " passive"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// fakeCluster is the objects of a cluster.
type fakeCluster struct {
	mu       sync.Mutex
	snapshot intent.Snapshot
	missing  bool
	changed  chan struct{}
	// others is the answer of OthersServe. unknown makes it fail.
	others, unknown bool
}

func (c *fakeCluster) OthersServe(context.Context) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unknown {
		return false, errors.New("the API server is away")
	}
	return c.others, nil
}

func (c *fakeCluster) Read() (intent.Snapshot, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.missing {
		return intent.Snapshot{}, false
	}
	s := c.snapshot
	s.Configs = slices.Clone(s.Configs)
	for i := range s.Configs {
		s.Configs[i] = *s.Configs[i].DeepCopy()
	}
	if s.Node != nil {
		node := *s.Node
		s.Node = &node
	}
	return s, true
}

func (c *fakeCluster) Changed() <-chan struct{} { return c.changed }

func (c *fakeCluster) change(change func(*intent.Snapshot)) {
	c.mu.Lock()
	change(&c.snapshot)
	c.missing = false
	c.mu.Unlock()
	backoff.Poke(c.changed)
}

// fakeReports keeps the last report.
type fakeReports struct {
	mu   sync.Mutex
	node NodeReport
	// slow, if it is not nil, blocks the next report of the node. count counts the reports.
	slow  chan struct{}
	count int
}

func (r *fakeReports) Node(n NodeReport) {
	r.mu.Lock()
	slow := r.slow
	r.slow = nil
	r.mu.Unlock()
	if slow != nil {
		<-slow
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.node = n
	r.count++
}

// last returns the last report of the node.
func (r *fakeReports) last() NodeReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.node
}

// hold blocks the next report of the node until release.
func (r *fakeReports) hold(release chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slow = release
}

// conditions prints the conditions of the node.
func (r *fakeReports) conditions() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for _, c := range r.node.Status.Conditions {
		lines = append(lines, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(lines, "\n")
}

var errFake = errors.New("not today")

// peers returns the neighbors of the last Apply.
func (s *fakeServer) peers() []peering.Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Peers
}
