package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"time"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/gossip"
	"purelb.io/purelb/internal/process"
)

const (
	// memoryVersion is the format version of the file. The agent does not read another
	// version.
	memoryVersion = 1
	// maxRemembered is how many peers the file holds. One living peer is enough.
	maxRemembered = 64
	// early is how long an agent waits for the API server before it starts gossip from the
	// file. If the server answers, the agent soon knows its networks, and announces them
	// from the start.
	early = 3 * time.Second
)

// memory is the content of the file that lets an agent gossip after a restart while the API
// server is away: the keys, and the gossip addresses of others. It does not contain the
// record of the node. The agent cannot take an address before it has read the Services.
// Until then the others should hear it, but not make it a candidate.
type memory struct {
	Version int
	Node    string
	Keys    [][]byte
	Peers   []netip.AddrPort
}

// recall reads the file at path that the previous agent on node wrote. A missing file gives
// the zero memory and no error.
func recall(path, node string) (memory, error) {
	if path == "" {
		return memory{}, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return memory{}, nil
	}
	if err != nil {
		return memory{}, fmt.Errorf("read the memory of gossip: %w", err)
	}
	var m memory
	switch { // errors must not show the text, because it contains the keys
	case json.Unmarshal(text, &m) != nil:
		return memory{}, fmt.Errorf("read the memory of gossip: %s is damaged", path)
	case m.Version != memoryVersion:
		return memory{}, fmt.Errorf("read the memory of gossip: %s has version %d, want %d", path, m.Version, memoryVersion)
	case m.Node != node:
		return memory{}, fmt.Errorf("read the memory of gossip: %s belongs to node %q", path, m.Node)
	}
	return m, nil
}

// remember writes m to a file.
func (m memory) remember(path string) error {
	text, err := json.Marshal(m)
	if err == nil {
		err = process.WriteFile(path, text)
	}
	if err != nil {
		return fmt.Errorf("write the memory of gossip: %w", err)
	}
	return nil
}

// keep writes the current keys and peers to the file. It writes nothing if the file has these
// keys and enough living peers.
func (m *Membership) keep(ctx context.Context, g *gossip.Gossip, ring *keyring) {
	if m.Memory == "" {
		return
	}
	now := memory{memoryVersion, m.Lease.Node, ring.keys(), nil}
	alive := map[netip.AddrPort]bool{}
	for _, one := range g.Members() {
		if one.Node != m.Lease.Node && one.State == election.Alive {
			alive[one.Address] = true
			now.Peers = append(now.Peers, one.Address)
		}
	}
	gone := func(p netip.AddrPort) bool { return !alive[p] }
	known := min(len(now.Peers), maxRemembered)
	if old := m.kept; len(now.Peers) == 0 || slices.EqualFunc(old.Keys, now.Keys, slices.Equal) && len(old.Peers) >= known && !slices.ContainsFunc(old.Peers, gone) {
		return
	}
	rand.Shuffle(len(now.Peers), func(i, j int) { now.Peers[i], now.Peers[j] = now.Peers[j], now.Peers[i] })
	now.Peers = now.Peers[:known]
	if err := now.remember(m.Memory); err != nil {
		m.Log.WarnContext(ctx, "gossipNotRemembered", "node", m.Lease.Node, "error", err)
	}
	m.kept = now // after an error, the next change tries again
}

// recalled fills ring with the keys of the previous agent if the API server does not answer
// within early. It returns at the latest when ctx is done.
func (m *Membership) recalled(ctx context.Context, ring *keyring) {
	was, err := recall(m.Memory, m.Lease.Node)
	if err != nil {
		m.Log.WarnContext(ctx, "gossipNotRemembered", "node", m.Lease.Node, "error", err)
	}
	if len(was.Keys) == 0 || m.Ready == nil {
		return
	}
	m.mu.Lock()
	m.seeded = was.Peers
	m.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-m.Ready:
	case <-time.After(m.early):
		m.Log.InfoContext(ctx, "gossipRemembered", "node", m.Lease.Node, "peers", len(was.Peers))
		close(m.recollect)
		ring.offer(was.Keys)
	}
}

// seeds returns the gossip addresses of other agents. They come from the file until the Leases
// were listed, and from the Leases afterwards.
func (m *Membership) seeds(ctx context.Context) ([]netip.AddrPort, error) {
	m.mu.Lock()
	seeded := m.seeded
	m.mu.Unlock()
	if len(seeded) > 0 && !m.leases.View().Listed {
		return seeded, nil
	}
	return m.leases.Seeds(ctx)
}

// ready waits until the API server answers or ctx is done. It reports whether the API
// server answered, even if ctx is done by then.
func (m *Membership) ready(ctx context.Context) bool {
	if m.Ready == nil {
		return true
	}
	select {
	case <-m.Ready:
	case <-ctx.Done():
	}
	select {
	case <-m.Ready:
		return true
	default:
		return false
	}
}
