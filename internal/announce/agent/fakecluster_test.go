package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/nodes/membership"
)

// objects holds the contents of a Snapshot, with Services as API objects.
type objects struct {
	Snapshot
	Services []corev1.Service
	// Endpoints and Ending are the nodes with endpoints. They are the same for both families.
	Endpoints, Ending map[string][]string
	// NodesUnreachable are the nodes whose kubelets are not heard.
	NodesUnreachable []string
}

// fakeCluster is the objects of a cluster.
type fakeCluster struct {
	mu       sync.Mutex
	snapshot objects
	missing  bool
	changed  chan struct{}
	// kubeletsRead counts the calls of NodeUnreachable.
	kubeletsRead int
}

func (c *fakeCluster) Read() (Snapshot, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.missing {
		return Snapshot{}, false
	}
	s := c.snapshot.Snapshot
	for i := range c.snapshot.Services {
		if svc, ours := readService(&c.snapshot.Services[i]); ours {
			s.Services = append(s.Services, svc)
		}
	}
	return s, true
}

func (c *fakeCluster) Endpoints(services map[string]bool) (ready, ending announce.Endpoints) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ready, ending = announce.Endpoints{}, announce.Endpoints{}
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		for service := range services {
			if nodes, known := c.snapshot.Endpoints[service]; known {
				one := announce.ServiceFamily{Service: service, Family: f}
				ready[one], ending[one] = nodes, c.snapshot.Ending[service]
			}
		}
	}
	return ready, ending
}

func (c *fakeCluster) NodeUnreachable(_ context.Context, node string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kubeletsRead++
	return slices.Contains(c.snapshot.NodesUnreachable, node), nil
}

func (c *fakeCluster) Changed() <-chan struct{} { return c.changed }

func (c *fakeCluster) change(change func(*objects)) {
	c.mu.Lock()
	change(&c.snapshot)
	c.missing = false
	c.mu.Unlock()
	backoff.Poke(c.changed)
}

// fakePeers are the nodes of a cluster.
type fakePeers struct {
	mu        sync.Mutex
	peers     election.Peers
	published []string
	own       string
	gateways  string
	macs      string
	gossip    string
	unable    string
	claims    []string
	inherited []lease.Heard
	drains    string
	// heard, if set, changes the peers at each Publish.
	heard   func(*election.Peers)
	changed chan struct{}
	// sent are the sent messages as "node: message". answer, if set, returns the answer to a
	// message.
	sent     []string
	answer   func(to string, message []byte) (membership.Message, bool)
	received chan membership.Message
	// gone says that the agent called Leave in time.
	gone bool
	// state is what /state shows of gossip.
	state any
	// deaf says that Leave does not end in time.
	deaf bool
}

func (p *fakePeers) Inherited() ([]lease.Heard, bool) { return p.inherited, true }

func (p *fakePeers) Publish(r lease.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("%v %s %s", r.Subnets, r.Agent, r.Problem)
	p.own, p.gateways, p.drains = fmt.Sprint(r.Addresses), fmt.Sprint(r.Gateways), r.Draining
	p.macs, p.gossip = fmt.Sprint(r.MACs), r.Gossip.String()
	p.unable = fmt.Sprint(r.Unable)
	if claims := fmt.Sprint(r.Claims); len(p.claims) == 0 || p.claims[len(p.claims)-1] != claims {
		p.claims = append(p.claims, claims)
	}
	if n := len(p.published); n == 0 || p.published[n-1] != text {
		p.published = append(p.published, text)
		if p.heard != nil {
			p.heard(&p.peers)
		}
	}
}

// reports returns the last published reports about other machines.
func (p *fakePeers) reports() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.claims[len(p.claims)-1]
}

// reportedTimes returns the number of different published reports.
func (p *fakePeers) reportedTimes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.claims)
}

// publications returns the last published record.
func (p *fakePeers) publications() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.published[len(p.published)-1]
}

func (p *fakePeers) Peers() election.Peers {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peers
}

func (p *fakePeers) Changed() <-chan struct{} { return p.changed }

func (p *fakePeers) Send(_ context.Context, node string, message []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, fmt.Sprintf("%s: %s", node, message))
	if p.answer != nil {
		if answer, ok := p.answer(node, message); ok {
			p.received <- answer
		}
	}
	return nil
}

// draining returns the published reason to avoid this node.
func (p *fakePeers) draining() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.drains
}

// messages returns the sent messages.
func (p *fakePeers) messages() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sent)
}

func (p *fakePeers) Received() <-chan membership.Message { return p.received }

func (p *fakePeers) State() any { return p.state }

func (p *fakePeers) Leave(ctx context.Context) error {
	if p.deaf {
		<-ctx.Done()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = ctx.Err() == nil
	return ctx.Err()
}

func (p *fakePeers) change(change func(*election.Peers)) {
	p.mu.Lock()
	change(&p.peers)
	p.mu.Unlock()
	backoff.Poke(p.changed)
}

// fakeAnnotations writes into a fakeCluster at once.
type fakeAnnotations struct {
	mu      sync.Mutex
	cluster *fakeCluster
	writes  int
}

// written returns the number of writes.
func (f *fakeAnnotations) written() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

func (f *fakeAnnotations) Want(writes map[string]Write) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(writes)) {
		w := writes[key]
		f.writes++
		f.cluster.change(func(s *objects) {
			for i := range s.Services {
				if svc := s.Services[i].DeepCopy(); svc.Name == w.Name && svc.ResourceVersion == w.Version {
					applyPatch(svc, w.Patch)
					svc.ResourceVersion += "'"
					s.Services[i] = *svc
				}
			}
		})
		if w.Done != nil {
			w.Done()
		}
	}
}

// applyPatch applies a merge patch of annotations.
func applyPatch(svc *corev1.Service, patch string) {
	var p struct {
		Metadata struct{ Annotations map[string]*string }
	}
	if err := json.Unmarshal([]byte(patch), &p); err != nil {
		panic(err)
	}
	for name, value := range p.Metadata.Annotations {
		if value == nil {
			delete(svc.Annotations, name)
		} else {
			svc.Annotations[name] = *value
		}
	}
}

// unwritten is an Annotations that drops all writes.
type unwritten struct{}

func (unwritten) Want(map[string]Write) {}
