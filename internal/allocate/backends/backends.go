// Package backends performs the work with backends, which manage the addresses of ServiceGroups
// outside of the cluster: NetBox and IPAM servers. It claims what the ledger wants, releases what
// the ledger gives up, and compares the holdings of both. It decides nothing about an address, and
// knows no Service.
//
// Each group has a queue of the holders that have work: so a slow or missing backend delays only its
// own group, and nothing else in the allocator. The requests for one holder are sent one after the
// other. The groups on one NetBox server share a sweep, and a client that sends one request at a
// time.
//
// Read backends.go (the ledger and the manager), group.go (the work of a group), fault.go (what an error
// means for it), external.go and netbox.go (the two kinds of backend), server.go and sweep.go (what
// groups on one NetBox share), state.go (what people see).
//
// The package keeps the following state. Any of it may be lost at any time:
//
//	group   how often it or a holder failed in a row: the pauses begin again at the first
//	netBox  what is known of a group in NetBox: it is found again
package backends

import (
	"cmp"
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/allocate/ipamgrpc"
	"purelb.io/purelb/internal/allocate/netbox"
	"purelb.io/purelb/internal/config"
)

// Ledger lists the requests to backends, and takes the answers. It has all state of claims. Its
// methods are quick and safe for concurrent use.
type Ledger interface {
	// Pending returns the holders of a group that have work.
	Pending(group string) []ipam.Holder
	// Work returns what to ask for a holder, and marks it as sent until Released or Answered gets its
	// outcome.
	Work(ipam.Holder) ipam.Work
	// Released takes the outcome of Work.Release, in its order. It says when the holder has more work.
	Released(h ipam.Holder, grants []ipam.Grant, errs []error) ipam.Due
	// Answered takes the answers to Work.Claims, in their order. It says when the holder has more work.
	Answered(h ipam.Holder, claims []ipam.Claim, answers []ipam.Answer) ipam.Due
	// Holds returns the grants (Key and Address) of the cluster, by group. It includes
	// groups that are gone.
	Holds() map[string][]ipam.Grant
	// Compared takes the grants of a group that the backend has but Holds does not, and the reverse.
	// It returns the orphans: unknown grants whose key has no open claim, and whose address no
	// Service has. Work then has claims for exactly the missing addresses.
	Compared(group string, unknown, missing []ipam.Grant) (orphans []ipam.Grant)
}

// Options are what a Manager needs besides the ledger. Options without a default must be
// set.
type Options struct {
	// Secret reads a value of a Secret. It returns nothing if the Secret or the value is not there.
	Secret func(ctx context.Context, key config.SecretKey) ([]byte, error)
	// Changed is called when the visible part of a group's State has changed. It is quick and may
	// call the Manager.
	Changed func(group string)
	// Log logs the beginning and the end of faults.
	Log *slog.Logger
	// Call is called for each call to an IPAM server, and Exchange for each request to
	// NetBox. They are for metrics.
	Call     ipamgrpc.Observer
	Exchange func(netbox.Exchange)
	// NetBox makes a client. Default: netbox.New.
	NetBox func(netbox.Config) (*netbox.Client, error)
	// SweepEvery is the interval of sweeps of NetBox. Default: 10 min.
	SweepEvery time.Duration
}

func (o Options) withDefaults() Options {
	if o.NetBox == nil {
		o.NetBox = netbox.New
	}
	o.SweepEvery = cmp.Or(o.SweepEvery, sweepEvery)
	return o
}

// Manager works for each group with a backend.
type Manager struct {
	ledger  Ledger
	options Options
	all     sync.WaitGroup // the groups and sweeps

	mu sync.Mutex // guards what follows
	// running is the context of Run. It is nil while Run does not run. identity is how NetBox knows
	// the cluster.
	running  context.Context
	identity netbox.Identity
	wanted   map[string]config.Backend
	groups   map[string]*group
	// ended is closed when the last work for a group has ended. A change of its backend waits for
	// that.
	ended   map[string]<-chan struct{}
	servers map[serverID]*server
}

// New returns a Manager without groups.
func New(ledger Ledger, options Options) *Manager {
	options = options.withDefaults()
	return &Manager{
		ledger:  ledger,
		options: options,
		groups:  map[string]*group{},
		ended:   map[string]<-chan struct{}{},
		servers: map[serverID]*server{},
	}
}

// Set sets the backends of the groups. Groups whose backend is unchanged continue. A changed group
// first ends its calls. Set does not wait for that.
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
// deadline. Only the leader runs it, and once: a process that loses the lead ends. identity is how
// NetBox knows the cluster.
func (m *Manager) Run(ctx context.Context, identity netbox.Identity) {
	m.mu.Lock()
	m.running, m.identity = ctx, identity
	m.apply()
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.running = nil
	for name, g := range m.groups {
		m.stop(name, g)
	}
	m.mu.Unlock()
	m.all.Wait()
}

// apply starts and stops groups until they match wanted.
func (m *Manager) apply() {
	if m.running == nil || m.running.Err() != nil {
		return
	}
	for name, g := range m.groups {
		if _, wanted := m.wanted[name]; !wanted {
			m.stop(name, g)
		}
	}
	for name, b := range m.wanted {
		old := m.groups[name]
		if old != nil && reflect.DeepEqual(old.config, b) {
			continue
		}
		m.start(b)
		if old != nil {
			old.stop()
		}
	}
}

// start starts the work for a group. It begins when the previous work for it has ended.
func (m *Manager) start(b config.Backend) {
	ctx, stop := context.WithCancel(m.running)
	before := m.ended[b.Group]
	ended := make(chan struct{})
	state := &entry{changed: m.options.Changed, state: State{Group: b.Group}, warnings: map[string][]string{}}
	if b.External != nil {
		state.state.Backend = b.External.Provider
	}
	g := newGroup(m, b, m.open(b, state), state, stop)
	m.groups[b.Group], m.ended[b.Group] = g, ended
	m.all.Go(func() {
		defer close(ended)
		defer stop()
		if before != nil {
			<-before
		}
		g.run(ctx)
		g.backend.close()
	})
}

// stop ends the work for a group that no longer has a backend.
func (m *Manager) stop(name string, g *group) {
	g.stop()
	delete(m.groups, name)
}

// open returns the backend that b describes. It sends nothing.
func (m *Manager) open(b config.Backend, state *entry) backend {
	if b.NetBox != nil {
		return &netBox{server: m.serverOf(b.NetBox), group: netbox.Group{Name: b.Group, Identity: m.identity, NetBox: *b.NetBox}, state: state, confirmed: b.ReleaseOrphans}
	}
	return openExternal(b, m.options.Call)
}

// Poke says that holders have work.
func (m *Manager) Poke(due ...ipam.Holder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range due {
		if g := m.groups[h.Group]; g != nil {
			g.queue.Add(h)
		}
	}
}

// States returns the state of each group, by its Ref. It is for reading only.
func (m *Manager) States() map[string]State {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[string]State{}
	for name, g := range m.groups {
		all[name] = g.state.now()
	}
	return all
}

// serverOf returns the NetBox server of a group. A server that has lost its last group sends nothing.
func (m *Manager) serverOf(n *config.NetBox) *server {
	id := serverID{url: n.URL, token: n.Token, ca: n.CA}
	s := m.servers[id]
	if s == nil {
		s = &server{id: id, manager: m, members: map[string]netBox{}, confirmed: make(chan struct{}, 1)}
		m.servers[id] = s
		running := m.running
		m.all.Go(func() { s.sweepUntil(running) })
	}
	return s
}

// compared returns the part of a grant that the sweep compares.
func compared(g ipam.Grant) ipam.Grant { return ipam.Grant{Key: g.Key, Address: g.Address.Unmap()} }

// holds returns the grants of the cluster, of all groups.
func (m *Manager) holds() (all map[ipam.Grant]bool, byGroup map[string][]ipam.Grant) {
	byGroup, all = m.ledger.Holds(), map[ipam.Grant]bool{}
	for _, grants := range byGroup {
		for _, g := range grants {
			all[compared(g)] = true
		}
	}
	return all, byGroup
}
