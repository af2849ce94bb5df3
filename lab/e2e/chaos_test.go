package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/lab/kube"
)

// Promise: with any faults in any order, a Service keeps its addresses. Without a fault, exactly one
// node answers for each address. While a node lives that can answer, an address is never silent for
// long. No kind of fault costs more than its limit.

// TestChaos makes one fault after another for the time CHAOS (60s). CHAOS_SEED selects the faults. A
// failed test prints the seed and the time of each event.
func TestChaos(t *testing.T) {
	long, err := time.ParseDuration(cmp.Or(os.Getenv("CHAOS"), "60s"))
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("CHAOS=%s CHAOS_SEED=%d", long, seed)
	w := newWorldFor(t, long)
	c := &chaos{watched: watchLocal(w), random: rand.New(rand.NewPCG(seed, 0))}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("CHAOS=%s CHAOS_SEED=%d\n%s", long, seed, strings.Join(c.told, "\n"))
		}
	})
	costs := map[string][]string{}
	for end := time.Now().Add(long); time.Now().Before(end) && !t.Failed(); {
		name, cost := c.round()
		costs[name] = append(costs[name], cost)
		c.refresh()
	}
	w.freshAllocator() // the old allocators ended because they could not renew their Lease
	for _, f := range faults {
		if len(costs[f.name]) > 0 {
			t.Logf("%s: unanswered/answered by two for %s", f.name, strings.Join(costs[f.name], ", "))
		}
	}
}

// chaos is a watched Service in a cluster with faults.
type chaos struct {
	*watched
	random *rand.Rand
	told   []string
}

// tell adds a line to the timeline.
func (c *chaos) tell(format string, args ...any) {
	c.told = append(c.told, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// fault is a fault of a node and its allowed loss. begin starts it. The function that begin returns
// ends it.
type fault struct {
	name  string
	may   loss
	begin func(c *chaos, node string) (end func())
	// hang says that the fault can also happen while the API server hangs.
	hang bool
}

var faults = []fault{
	{"agent killed", nothing, func(c *chaos, node string) func() {
		return c.killAgents(node)
	}, false},
	{"agents rolled out", nothing, func(c *chaos, node string) func() {
		return c.rollOutAgents()
	}, false},
	{"agent's pod deleted", convergence, func(c *chaos, node string) func() {
		c.restartAgent(node)
		return func() {}
	}, false},
	{"agent evicted", convergence, func(c *chaos, node string) func() {
		c.evict(node)
		return func() { c.agentReady(node) }
	}, false},
	{"node tainted", convergence, func(c *chaos, node string) func() {
		untaint := c.taint(node)
		return func() { untaint(); c.agentReady(node) }
	}, false},
	{"node drained", convergence, func(c *chaos, node string) func() {
		return c.exclude(node)
	}, false},
	{"power lost", powerLoss, func(c *chaos, node string) func() {
		c.crash(node)
		return c.undoable(func() { lab.boot(c.t, node); c.agentReady(node) })
	}, true},
	// When the cable is plugged in again, the node may still have the address.
	{"cable pulled", unpluggedLoss, func(c *chaos, node string) func() {
		return c.unplug(node)
	}, true},
	{"gossip of a node blocked", nothing, func(c *chaos, node string) func() {
		return block(c.world, node)
	}, false},
	{"gossip blocked", nothing, func(c *chaos, node string) func() {
		var ends []func()
		for _, n := range lab.powered() {
			ends = append(ends, block(c.world, n))
		}
		return func() {
			for _, end := range ends {
				end()
			}
		}
	}, false},
	{"node cut off", nothing, func(c *chaos, node string) func() {
		heal := cutOff(c.world, node)
		return func() { heal(); c.agentReady(node) }
	}, false},
	{"segment cut", segmentCutLoss, func(c *chaos, node string) func() {
		mend := sever(c.world, []string{node}, allBut(node))
		return func() { mend(); c.agentReady(node) }
	}, false},
	{"API server away", nothing, func(c *chaos, node string) func() { return func() {} }, true},
}

// round starts a fault at a node of the segment, ends it, and waits until one node answers. It
// returns the fault and its cost.
func (c *chaos) round() (name, cost string) {
	c.t.Helper()
	c.begin()
	c.tell("all is well, addresses are on %v", c.holderNodes(c.addresses[0]))
	f := faults[c.random.IntN(len(faults))]
	node := fmt.Sprintf("node-%d", 1+c.random.IntN(2))
	lasts := time.Duration(c.random.IntN(7000)) * time.Millisecond
	resume := func() {}
	if f.hang && (c.random.IntN(2) == 0 || f.name == "API server away") {
		c.tell("the API server hangs")
		resume = c.hang()
	}
	c.tell("%s: %s, for %v", node, f.name, lasts)
	began := time.Now()
	end := f.begin(c, node)
	time.Sleep(time.Until(began.Add(lasts)))
	resume()
	c.tell("%s: undone", f.name)
	end()
	c.allReady()
	c.rest(patience)
	c.tell("quiet")
	cost = c.cost()
	c.tell("lost %s", cost)
	c.end(f.may)
	if now := kube.Addresses(c.service("web")); !slices.Equal(now, c.addresses) {
		c.t.Errorf("the Service had %v and has %v", c.addresses, now)
	}
	return f.name, cost
}

// allReady waits until everything in the lab is ready again.
func (c *chaos) allReady() {
	c.t.Helper()
	for _, n := range lab.Nodes() {
		c.agentReady(n.Name)
	}
}

// refresh replaces agents that ended several times. Otherwise the kubelet would wait for minutes
// before it starts them.
func (c *chaos) refresh() {
	c.t.Helper()
	for _, n := range lab.Nodes() {
		if c.restarts(n.Name) >= 3 {
			c.replaceAgent(n.Name)
		}
	}
}

// cost returns the loss since the start of the round.
func (c *chaos) cost() string {
	var silence, twofold time.Duration
	for _, a := range c.addresses {
		story := c.station.Story(a, c.began)
		silence, twofold = max(silence, story.Silence()), max(twofold, story.Twofold())
	}
	return fmt.Sprintf("%d/%d ms", silence.Milliseconds(), twofold.Milliseconds())
}

// unplug unplugs the cable of a node's first interface.
func (w *world) unplug(node string) (plug func()) {
	w.t.Helper()
	// The node may still ask another node to take its addresses. That message cannot leave the node.
	w.expect("configProblem", "messageNotSent")
	w.expect(withoutAPI...)
	m, err := lab.Machine(node)
	if err != nil {
		w.t.Fatal(err)
	}
	port := func(in bool) {
		if err := lab.SetPort(node, m.NICs[0].Name, in); err != nil {
			w.t.Errorf("cable of %s: %v", node, err)
		}
	}
	port(false)
	return w.undoable(func() { port(true) })
}
