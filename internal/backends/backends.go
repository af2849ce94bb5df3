// Package backends runs the work with the backends, which manage the addresses of
// ServiceGroups outside of the cluster: NetBox and IPAM servers. It claims what the ledger
// wants, releases what the ledger gives up, and compares what both hold. It decides nothing
// about an address, and knows no Service.
//
// Each group has a worker, which is a goroutine. So a backend that is slow or away delays
// its own group alone, and nothing in the rest of the allocator. The groups on one NetBox
// server share a client, which sends one request at a time, and a sweep.
//
// Read backends.go (who asks for what), worker.go (the loop of a group), tasks.go (what a
// worker does), pace.go (when it tries again), external.go and netbox.go (the two kinds of
// backend), server.go and sweep.go (what groups of one NetBox share), state.go (what people
// see).
//
// What is kept here may be lost at any time:
//
//	pace     how often a task failed in a row: it begins anew
//	surplus  addresses that a backend holds too many: the next answer or sweep names them
//	pool     what is known of a group in NetBox: it is found again
//	sighting since when an orphan is seen: it is seen for as long again
package backends

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/ipamgrpc"
	"purelb.io/purelb/internal/netbox"
)

// Ledger says what is to be asked of backends, and takes the answers. It has all state of
// claims. Its methods are quick and safe for concurrent use.
//
// What it hands out counts as sent until the answer. What failed goes to the end of its queue,
// and is handed out again when it is asked for: the worker waits before it asks again.
type Ledger interface {
	// Wanted returns up to most claims of a group that are to be sent. The claims of one
	// holder (ipam.HolderOf) come together or not at all.
	Wanted(group string, most int) []ipam.Claim
	// Answered takes the answers to claims of Wanted, in their order. A claim that was refused
	// for itself (ipam.KindExhausted, KindTaken, KindInvalid) is not wanted again before
	// something changed: the worker does not wait then.
	Answered(group string, claims []ipam.Claim, answers []ipam.Answer)
	// Releasing returns up to most grants of a group that are to be released.
	Releasing(group string, most int) []ipam.Grant
	// Released takes the outcome for grants of Releasing, in their order. No claim with the
	// key of a grant may be handed out before its release succeeded.
	Released(group string, grants []ipam.Grant, errs []error)
	// Departed returns up to most keys, one for each holder that has nothing to do with the
	// group any more. Everything that the backend holds for them is released.
	Departed(group string, most int) []string
	// Dismissed takes the outcome for keys of Departed, in their order.
	Dismissed(group string, keys []string, errs []error)
	// Holds returns the grants (Key and Address) that the cluster has, by group. It has those of
	// groups that are gone, too. Complete says that all Services were read.
	Holds() (grants map[string][]ipam.Grant, complete bool)
	// Has reports whether a Service has an address, wherever it is from. Such an address is
	// never released.
	Has(a netip.Addr) bool
	// Register asks that grants which the cluster has, and the backend has not, be claimed by
	// name. They come back from Wanted.
	Register(group string, missing []ipam.Grant)
	// Orphans tells of grants that the backend has and Holds has not. Those whose key has no
	// open claim, and which are not held, come back from Releasing. The ledger decides, for
	// only it sees a claim that is on its way.
	Orphans(group string, grants []ipam.Grant)
}

// ErrNoSecret is the error of Options.Secret for a value that is not there.
var ErrNoSecret = errors.New("there is no such value")

// Options are what a Manager needs beside the ledger. Those without a default must be set.
type Options struct {
	// Cluster is the first part of the keys of claims.
	Cluster string
	// Secret reads a value of a Secret. It returns ErrNoSecret, wrapped or not, if the
	// Secret or the value is not there.
	Secret func(ctx context.Context, key config.SecretKey) ([]byte, error)
	// Changed is told when the State of a group changed in a way that people see. It is quick
	// and may call the Manager.
	Changed func(group string)
	// Log is where the beginning and the end of faults are logged.
	Log *slog.Logger
	// Call is told of each call to an IPAM server, and Exchange of each request to NetBox, for
	// metrics. Default: nothing.
	Call     ipamgrpc.Observer
	Exchange func(netbox.Exchange)
	// NetBox makes a client. Default: netbox.New.
	NetBox func(netbox.Config) (*netbox.Client, error)
	// SweepEvery is how often what NetBox holds is compared. Default: 10 min.
	SweepEvery time.Duration
	// Grace is how long an orphan must be seen before it is released. A request that is still
	// on its way must have ended by then. Default: 15 min.
	Grace time.Duration
	// Random returns a number in [0, 1) for jitter. Default: rand.Float64.
	Random func() float64
}

func (o Options) withDefaults() Options {
	if o.Call == nil {
		o.Call = func(string, string, string, time.Duration) {}
	}
	if o.NetBox == nil {
		o.NetBox = netbox.New
	}
	if o.SweepEvery == 0 {
		o.SweepEvery = sweepEvery
	}
	if o.Grace == 0 {
		o.Grace = grace
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return o
}

// Manager has a worker for each group with a backend.
type Manager struct {
	ledger  Ledger
	options Options
	states  *states
	sockets *ipamgrpc.Sockets
	all     sync.WaitGroup // the workers and sweeps

	mu sync.Mutex // guards what follows
	// running is the context of Run; nil when it does not run.
	running context.Context
	wanted  map[string]config.Backend
	workers map[string]*worker
	// ended is closed when the last worker of a group has ended. A group has one at a time.
	ended   map[string]<-chan struct{}
	servers map[serverID]*server
}

// New returns a Manager without groups.
func New(ledger Ledger, options Options) *Manager {
	options = options.withDefaults()
	return &Manager{
		ledger:  ledger,
		options: options,
		states:  newStates(options.Changed),
		sockets: ipamgrpc.NewSockets(options.Call),
		workers: map[string]*worker{},
		ended:   map[string]<-chan struct{}{},
		servers: map[serverID]*server{},
	}
}

// Set says which groups have which backends. Workers whose backend is the same go on.
// The worker of a group that changed ends its call first. Set does not wait for it.
func (m *Manager) Set(list []config.Backend) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted = map[string]config.Backend{}
	for _, b := range list {
		m.wanted[b.Group] = b
	}
	m.apply()
}

// Run works until ctx ends. It returns after the calls that are in flight, each of which has a
// deadline. Only the leader runs it.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	m.running = ctx
	m.apply()
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.running = nil
	for group, w := range m.workers {
		m.stop(group, w)
	}
	m.mu.Unlock()
	m.all.Wait()
	return m.sockets.Close()
}

// apply starts and stops workers so that they are those of wanted.
func (m *Manager) apply() {
	if m.running == nil || m.running.Err() != nil {
		return
	}
	for group, w := range m.workers {
		if _, wanted := m.wanted[group]; !wanted {
			m.stop(group, w)
		}
	}
	for group, b := range m.wanted {
		old := m.workers[group]
		if old != nil && reflect.DeepEqual(old.config, b) {
			continue
		}
		m.start(b)
		if old != nil {
			old.stop()
		}
	}
}

// start starts a worker, which begins when the one before has ended.
func (m *Manager) start(b config.Backend) {
	ctx, stop := context.WithCancel(m.running)
	before := m.ended[b.Group]
	ended := make(chan struct{})
	begin := State{Group: b.Group}
	if b.External != nil {
		begin.Backend = b.External.Provider
	}
	state := m.states.add(begin)
	w := newWorker(m, b, m.open(b, state), state)
	w.stop = stop
	m.workers[b.Group], m.ended[b.Group] = w, ended
	m.all.Go(func() {
		defer close(ended)
		defer stop()
		if before != nil {
			<-before
		}
		w.run(ctx)
		w.backend.close()
	})
}

// stop has a worker end, whose group has no backend any more.
func (m *Manager) stop(group string, w *worker) {
	w.stop()
	delete(m.workers, group)
	m.states.remove(group)
}

// open returns the backend that b describes. Nothing is sent yet.
func (m *Manager) open(b config.Backend, state *entry) backend {
	if b.NetBox != nil {
		return &netBox{server: m.join(b.NetBox), group: netbox.GroupOf(b.Group, m.options.Cluster, *b.NetBox), state: state}
	}
	return openExternal(m.sockets, b)
}

// Poke says that there is new work for a group.
func (m *Manager) Poke(group string) {
	m.mu.Lock()
	w := m.workers[group]
	m.mu.Unlock()
	if w != nil {
		w.poke()
	}
}

// States returns the state of each group, sorted by group. It is for reading only.
func (m *Manager) States() []State { return m.states.all() }

// join returns the NetBox server of a group, which the caller leaves.
func (m *Manager) join(n *config.NetBox) *server {
	id := serverID{url: n.URL, token: n.Token, ca: n.CA}
	s := m.servers[id]
	if s == nil {
		ctx, stop := context.WithCancel(m.running)
		s = newServer(id, m)
		s.left = func() { m.leave(s, stop) }
		m.servers[id] = s
		m.all.Go(func() { s.sweepUntil(ctx) })
	}
	s.users++
	return s
}

// leave takes a user from a server and ends its sweep behind the last one.
func (m *Manager) leave(s *server, stop context.CancelFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.users--; s.users == 0 {
		stop()
		delete(m.servers, s.id)
	}
}

// hold is what the sweep compares of a grant.
type hold struct {
	key     string
	address string
}

func holdOf(g ipam.Grant) hold { return hold{g.Key, g.Address.Unmap().String()} }

// holds are those of the cluster, of all groups.
func (m *Manager) holds() (all map[hold]bool, byGroup map[string][]ipam.Grant, complete bool) {
	byGroup, complete = m.ledger.Holds()
	all = map[hold]bool{}
	for _, grants := range byGroup {
		for _, g := range grants {
			all[holdOf(g)] = true
		}
	}
	return all, byGroup, complete
}
