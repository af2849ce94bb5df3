package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"purelb.io/purelb/internal/process"
)

const (
	// memoryVersion is the format version of the file. The agent does not read another
	// version.
	memoryVersion = 1
	// early is how long an agent waits for the API server before it starts gossip from the
	// file. If the server answers, the agent soon knows its networks, and announces them
	// from the start.
	early = 3 * time.Second
)

// memory is the content of the file that lets an agent gossip after a restart while the API
// server is away: the keys. The others know the address of the agent before it, and call this one
// there. The file does not contain the record of the node. The agent cannot take an address before it has
// read the Services. Until then the others should hear it, but not make it a candidate.
type memory struct {
	Version int
	Node    string
	Keys    [][]byte
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

// write writes m to a file.
func (m memory) write(path string) error {
	text, err := json.Marshal(m)
	if err == nil {
		err = process.WriteFile(path, text)
	}
	if err != nil {
		return fmt.Errorf("write the memory of gossip: %w", err)
	}
	return nil
}

// remember writes keys to the file, for the next agent on this node.
func (m *Membership) remember(ctx context.Context, keys [][]byte) {
	if m.Memory == "" {
		return
	}
	if err := (memory{memoryVersion, m.Lease.Node, keys}).write(m.Memory); err != nil {
		m.Log.WarnContext(ctx, "gossipNotRemembered", "node", m.Lease.Node, "error", err)
	}
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
	select {
	case <-ctx.Done():
	case <-m.Ready:
	case <-time.After(m.early):
		m.Log.InfoContext(ctx, "gossipRemembered", "node", m.Lease.Node)
		close(m.recollect)
		ring.offer(was.Keys)
	}
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
