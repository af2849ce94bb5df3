package membership

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/nodes/election"
	"purelb.io/purelb/internal/nodes/gossip"
	"purelb.io/purelb/internal/nodes/lease"
	"purelb.io/purelb/internal/testing/expect"
)

var remembered = memory{memoryVersion, "node-1", [][]byte{[]byte("a secret of 16 B")}}

func TestTheNextAgentReadsTheMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gossip.json")
	for range 2 { // the second time the file exists already
		expect.NoError(t, remembered.write(path))
	}
	got, err := recall(path, "node-1")
	if diff := cmp.Diff(remembered, got); err != nil || diff != "" {
		t.Errorf("the memory: %v (-want +got)\n%s", err, diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("other users can read the keys: %v, %v", info.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(left) > 0 {
		t.Errorf("the folder has other files: %v, %v", left, err)
	}
}

func TestAnInvalidMemoryIsAnErrorWithoutKeys(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "gossip.json")
	for _, tt := range []struct{ name, text, want string }{
		{"cut off", `{"Version":1,"Node":"node-1","Keys":["YSBzZWNyZXQ`, "is damaged"},
		{"of a later version", `{"Version":2,"Node":"node-1","Keys":["YSBzZWNyZXQ="]}`, "has version 2, want 1"},
		{"of another node", `{"Version":1,"Node":"node-2","Keys":["YSBzZWNyZXQ="]}`, `belongs to node "node-2"`},
	} {
		expect.NoError(t, os.WriteFile(path, []byte(tt.text), 0o600))
		got, err := recall(path, "node-1")
		if err == nil || !strings.Contains(err.Error(), path+" "+tt.want) || strings.Contains(err.Error(), "YSB") || got.Keys != nil {
			t.Errorf("a memory %s is read as %v, %v", tt.name, got, err)
		}
	}
	for name, path := range map[string]string{"no file": filepath.Join(folder, "none"), "no folder named": ""} {
		if got, err := recall(path, "node-1"); err != nil || got.Keys != nil {
			t.Errorf("%s: the memory is read as %v, %v; want no error", name, got, err)
		}
	}
	if err := remembered.write(filepath.Join(folder, "missing", "gossip.json")); err == nil {
		t.Error("writing into a missing folder returns no error")
	}
}

// The agent of node-2 restarts while the API server is away. The other agents hear it again, but it
// is no candidate before it has published a record.
func TestAnAgentRejoinsWithoutTheAPIServer(t *testing.T) {
	c := newCluster(t)
	c.joining = time.Minute
	a, other := c.join(1, "shared"), c.join(3, "shared")
	a.sees("node-1 node-3")
	path := filepath.Join(t.TempDir(), "gossip.json")
	before := c.joinAs(2, "shared", func(o *Options) { o.Memory = path })
	a.sees("node-1 node-2 node-3")
	before.sees("node-1 node-2 node-3")
	before.stop()
	a.sees("node-1 node-3")
	other.sees("node-1 node-3")

	answers := make(chan struct{})
	after := New(Options{
		Gossiping: Gossiping{Bind: c.place(2), Secret: "shared", Memory: path},
		Lease:     c.lease("node-2"), Secrets: c.core.CoreV1().Secrets(c.namespace),
		Log: slog.New(slog.DiscardHandler), Ready: answers, timing: patiently, joining: c.joining, early: time.Second,
	})
	now := c.run(after)
	a.sees("node-1 node-2 node-3")
	subnets := func() (n int) {
		for _, m := range a.Peers().Members {
			if m.Node == "node-2" {
				n = len(m.Subnets)
			}
		}
		return n
	}
	expect.Equal(t, "networks of a node without a record", subnets(), 0)
	if p := now.Peers(); p.Trusted {
		t.Error("an agent without the API server trusts its list of peers")
	}
	expect.Equal(t, "a message to the restarted agent", exchange(t, a, now, "take"), "node-1: take")

	close(answers)
	now.Publish(lease.Record{NodeUID: "uid", Subnets: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	now.sees("node-1 node-2 node-3")
	for limit := time.After(time.Minute); subnets() == 0; {
		select {
		case <-a.Changed():
		case <-limit:
			t.Fatal("after a minute, the networks of the node are not known")
		}
	}
	if g := now.gossiping(); g == nil || g.Health().BadKey.Load() > 0 || g.Patience() != gossip.DefaultPatience {
		t.Errorf("the gossip of the restarted agent is %+v", g)
	}
}

// Agents restart during an outage of the API server. If their wait for gossip counted from their
// start, all of them would list all Leases all the time after the outage.
func TestJoiningTimeBeginsWhenTheAPIServerAnswers(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	answers := make(chan struct{})
	m := New(Options{Gossiping: Gossiping{Bind: place(1)}, Lease: lease.Options{Node: "node-1"}, Log: slog.New(slog.DiscardHandler), Ready: answers})
	look := func() (polls bool) {
		if err := m.keepLeases(ended); err != nil {
			t.Error(err)
		}
		e := scene{{"node-b", "", "kept"}}.evidence(false)
		now := time.Now().Add(2 * joining)
		keeping := m.mode.decide(e, election.Merge(e, now), false, now)
		return keeping.Poll
	}
	if look() {
		t.Error("the agent wants to poll Leases before the API server answers")
	}
	close(answers)
	if !look() {
		t.Error("the agent does not poll Leases although gossip finds no node")
	}
}
