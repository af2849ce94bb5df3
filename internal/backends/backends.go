// Package backends performs the work with backends, which manage the addresses of ServiceGroups
// outside of the cluster: NetBox and IPAM servers. It claims what the ledger wants, releases what
// the ledger gives up, and compares the holdings of both. It decides nothing about an address, and
// knows no Service.
//
// Each group has a worker, which is a goroutine. So a slow or missing backend delays only its own
// group, and nothing else in the allocator. The groups on one NetBox server share a sweep, and a
// client that sends one request at a time.
//
// Read backends.go (the ledger and the manager), worker.go (the loop of a group), tasks.go (the
// tasks of a worker), pace.go (when a task is tried again), external.go and netbox.go (the two
// kinds of backend), server.go and sweep.go (what groups on one NetBox share), state.go (what
// people see).
//
// The package keeps the following state. Any of it may be lost at any time:
//
//	pace     how often a task failed in a row: the count starts again at 0
//	surplus  addresses that a backend holds without need: the next answer or sweep names them
//	pool     what is known of a group in NetBox: it is found again
package backends

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"sync"
	"time"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/ipamgrpc"
	"purelb.io/purelb/internal/netbox"
)

// Ledger lists the requests to backends, and takes the answers. It has all state of claims. Its
// methods are quick and safe for concurrent use.
//
// An item that the ledger returns is marked as sent until its answer arrives. After a failure the
// item goes to the end of its queue, and the next call returns it again. The worker waits before
// that call.
type Ledger interface {
	// Wanted returns up to most claims of a group that must be sent. It returns all claims of a
	// holder (ipam.HolderOf) together or none.
	Wanted(group string, most int) []ipam.Claim
	// Answered takes the answers to claims of Wanted, in their order. If the backend refused a
	// claim for a reason of the claim itself (ipam.KindExhausted, KindTaken, KindInvalid), Wanted
	// returns that claim only after something has changed. So the worker does not wait.
	Answered(group string, claims []ipam.Claim, answers []ipam.Answer)
	// Releasing returns up to most grants of a group that must be released.
	Releasing(group string, most int) []ipam.Grant
	// Released takes the outcome for grants of Releasing, in their order. Until the release of a
	// grant has succeeded, Wanted must not return a claim with its key.
	Released(group string, grants []ipam.Grant, errs []error)
	// Freed reports that the backend has released surplus addresses, which Releasing does not
	// name. Claims that were refused because no address was free may succeed now.
	Freed(group string)
	// Departed returns up to most keys, one for each holder that has left the group. The
	// worker releases everything that the backend holds for these holders.
	Departed(group string, most int) []string
	// Dismissed takes the outcome for keys of Departed, in their order.
	Dismissed(group string, keys []string, errs []error)
	// Holds returns the grants (Key and Address) of the cluster, by group. It includes
	// groups that are gone. complete says that all Services were read.
	Holds() (grants map[string][]ipam.Grant, complete bool)
	// Has reports whether a Service has an address, from any source. Such an address is
	// never released.
	Has(a netip.Addr) bool
	// Register reports grants that the cluster has but the backend does not. Wanted then returns
	// claims for exactly these addresses.
	Register(group string, missing []ipam.Grant)
	// Learn takes grants that the backend has but Holds does not. It returns the orphans: those
	// whose key has no open claim, and whose address no Service has.
	Learn(group string, grants []ipam.Grant) (orphans []ipam.Grant)
}

// ErrNoSecret is the error of Options.Secret for a missing value.
var ErrNoSecret = errors.New("there is no such value")

// Options are what a Manager needs besides the ledger. Options without a default must be
// set.
type Options struct {
	// Identity is how NetBox knows the cluster.
	netbox.Identity
	// Secret reads a value of a Secret. It returns ErrNoSecret, wrapped or not, if the
	// Secret or the value is not there.
	Secret func(ctx context.Context, key config.SecretKey) ([]byte, error)
	// Changed is called when the visible part of a group's State has changed. It is quick and may
	// call the Manager.
	Changed func(group string)
	// Log logs the beginning and the end of faults.
	Log *slog.Logger
	// Call is called for each call to an IPAM server, and Exchange for each request to
	// NetBox. They are for metrics. Default: nothing.
	Call     ipamgrpc.Observer
	Exchange func(netbox.Exchange)
	// NetBox makes a client. Default: netbox.New.
	NetBox func(netbox.Config) (*netbox.Client, error)
	Sweeps
	// Random returns a number in [0, 1) for jitter. Default: rand.Float64.
	Random func() float64
}

// Sweeps are the times of the sweeps of NetBox.
type Sweeps struct {
	// SweepEvery is the interval of sweeps. Default: 10 min.
	SweepEvery time.Duration
	// PageTime is the least interval for each page of NetBox's list. Default: 2 min.
	PageTime time.Duration
}

func (o Options) withDefaults() Options {
	if o.Call == nil {
		o.Call = func(string, string, string, time.Duration) {}
	}
	if o.NetBox == nil {
		o.NetBox = netbox.New
	}
	o.SweepEvery = cmp.Or(o.SweepEvery, sweepEvery)
	o.PageTime = cmp.Or(o.PageTime, pageTime)
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
	// running is the context of Run. It is nil while Run does not run.
	running context.Context
	wanted  map[string]config.Backend
	workers map[string]*worker
	// ended is closed when the last worker of a group has ended. A group has one worker at
	// a time.
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

// Set sets the backends of the groups. Workers whose backend is unchanged continue. The worker of a
// changed group first ends its call. Set does not wait for that.
func (m *Manager) Set(list []config.Backend) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted = map[string]config.Backend{}
	for _, b := range list {
		m.wanted[b.Group] = b
	}
	m.apply()
}

// Run works until ctx ends. It returns after the calls in flight; each of them has a
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

// apply starts and stops workers until they match wanted.
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

// start starts a worker. It begins when the previous worker of the group has ended.
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

// stop ends the worker of a group that no longer has a backend.
func (m *Manager) stop(group string, w *worker) {
	w.stop()
	delete(m.workers, group)
	m.states.remove(group)
}

// open returns the backend that b describes. It sends nothing.
func (m *Manager) open(b config.Backend, state *entry) backend {
	if b.NetBox != nil {
		return &netBox{server: m.join(b.NetBox), group: netbox.GroupOf(b.Group, m.options.Identity, *b.NetBox), state: state, confirmed: b.ReleaseOrphans}
	}
	return openExternal(m.sockets, b)
}

// Poke says that there is new work for a group.
func (m *Manager) Poke(group string) {
	m.mu.Lock()
	w := m.workers[group]
	m.mu.Unlock()
	if w != nil {
		backoff.Poke(w.poked)
	}
}

// States returns the state of each group, sorted by group. It is for reading only.
func (m *Manager) States() []State { return m.states.all() }

// join returns the NetBox server of a group. The caller must call leave.
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

// leave removes a user from a server. The last one ends the sweep.
func (m *Manager) leave(s *server, stop context.CancelFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.users--; s.users == 0 {
		stop()
		delete(m.servers, s.id)
	}
}

// hold is the part of a grant that the sweep compares.
type hold struct {
	key     string
	address string
}

func holdOf(g ipam.Grant) hold { return hold{g.Key, g.Address.Unmap().String()} }

// holds returns the grants of the cluster, of all groups.
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
