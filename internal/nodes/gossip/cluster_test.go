package gossip

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"purelb.io/purelb/internal/nodes/detector"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/testing/expect"
)

var testKey = []byte("0123456789abcdef")

// agent is one member of a cluster in an ether.
type agent struct {
	*Gossip
	port *port
	stop context.CancelFunc
	// seen is when this agent first saw each node in a state.
	mu   sync.Mutex
	seen map[string]map[election.State]time.Time
	got  []string
}

// cluster is a set of agents in an ether. It runs in a bubble, where time passes when all
// goroutines wait.
type cluster struct {
	t     *testing.T
	ether *ether
	wg    sync.WaitGroup
	// mu guards agents, because the Seeds of running agents read it.
	mu     sync.Mutex
	agents []*agent
}

func inCluster(t *testing.T, n int, f func(*cluster)) {
	synctest.Test(t, func(t *testing.T) { inClusterOf(t, n, f) })
}

// inClusterOf is inCluster for callers that are in a bubble already.
func inClusterOf(t *testing.T, n int, f func(*cluster)) {
	c := &cluster{t: t, ether: newEther()}
	for i := range n {
		c.start(nodeName(i), i, nil)
	}
	f(c)
	c.end()
}

func nodeName(i int) string { return fmt.Sprintf("node-%03d", i) }

func (c *cluster) end() {
	for _, a := range c.agents {
		a.stop()
	}
	c.wg.Wait()
	// Some goroutines of the library end only after a timeout.
	time.Sleep(time.Minute)
}

// start starts an agent of node at the address i.
func (c *cluster) start(node string, i int, change func(*Options)) *agent {
	a := &agent{port: c.ether.port(i), seen: map[string]map[election.State]time.Time{}}
	opt := Options{
		Changed: make(chan struct{}, 1),
		Node:    node, Bind: a.port.addr, Keys: [][]byte{testKey}, Seeds: c.seeds, carrier: a.port,
		Receive: a.receive, Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&opt)
	}
	g, err := New(opt)
	expect.NoError(c.t, err)
	a.Gossip = g
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	c.mu.Lock()
	c.agents = append(c.agents, a)
	c.mu.Unlock()
	c.wg.Go(func() {
		if err := g.Run(ctx); err != nil {
			c.t.Error(err)
		}
	})
	c.wg.Go(func() { a.watch(ctx) })
	return a
}

func (c *cluster) seeds(context.Context) []netip.AddrPort {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []netip.AddrPort
	for _, a := range c.agents[:min(3, len(c.agents))] {
		all = append(all, a.port.addr)
	}
	return all
}

func (a *agent) receive(from string, message []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.got = append(a.got, from+": "+string(message))
}

func (a *agent) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.opt.Changed:
		}
		a.mu.Lock()
		for _, m := range a.Members() {
			if a.seen[m.Node] == nil {
				a.seen[m.Node] = map[election.State]time.Time{}
			}
			if _, ok := a.seen[m.Node][m.State]; !ok {
				a.seen[m.Node][m.State] = time.Now()
			}
		}
		a.mu.Unlock()
	}
}

// saw returns the time at which a first saw node in state.
func (a *agent) saw(node string, state election.State) (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.seen[node][state]
	return at, ok
}

// ringOf returns the ring that a knows.
func (a *agent) ringOf() detector.Ring {
	a.Gossip.mu.Lock()
	defer a.Gossip.mu.Unlock()
	r, _ := a.table.ring()
	return r
}

// agentOf returns the agent of the peer.
func (c *cluster) agentOf(p detector.Peer) *agent {
	return c.agents[slices.IndexFunc(c.agents, func(a *agent) bool { return a.self.peerID() == p.ID })]
}

// view returns what a knows as text: the nodes with their states.
func (a *agent) view() string {
	var all []string
	for _, m := range a.Members() {
		all = append(all, m.Node+" "+m.State.String())
	}
	return strings.Join(all, ", ")
}

// pass lets time pass.
func (c *cluster) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// powerOff stops agent i as a power failure does.
func (c *cluster) powerOff(i int) *agent {
	a := c.agents[i]
	a.port.powerOff()
	c.mu.Lock()
	c.agents = slices.Delete(slices.Clone(c.agents), i, i+1)
	c.mu.Unlock()
	a.stop()
	return a
}

// expect fails the test unless every agent has this view.
func (c *cluster) expect(when, view string) {
	c.t.Helper()
	for _, a := range c.agents {
		expect.Equal(c.t, when+": the view of "+a.self.node, a.view(), view)
	}
}
