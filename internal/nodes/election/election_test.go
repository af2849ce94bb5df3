package election_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"purelb.io/purelb/internal/nodes/election"
)

func ip(text string) netip.Addr { return netip.MustParseAddr(text) }

var (
	abc     = []string{"node-a", "node-b", "node-c"}
	workers = []string{"worker1", "worker2", "worker3", "worker4"}
)

// Agents of earlier versions must find the same winners.
func TestWinnerMatchesEarlierVersions(t *testing.T) {
	tests := []struct {
		candidates []string
		ip         string
		want       string
		wantHash   string
	}{
		{abc, "192.168.1.100", "node-c", "561beaa0f8030471"},
		{abc, "192.168.1.101", "node-c", "74db9cc7"},
		{abc, "10.0.0.5", "node-a", "5312b6c0"},
		{abc, "fd00::50", "node-a", "5c4f2e8d"},
		{abc, "2001:db8::1", "node-b", "1aee61dd"},
		{workers, "192.168.1.100", "worker2", ""},
		{workers, "192.168.1.101", "worker4", ""},
		{workers, "10.0.0.5", "worker1", ""},
		{workers, "fd00::50", "worker4", ""},
		{workers, "2001:db8::1", "worker4", ""},

		// The notation of the address makes no difference.
		{workers, "::ffff:192.168.1.101", "worker4", ""},
		{workers, "::ffff:192.168.1.100", "worker2", ""},
		{workers, "::ffff:10.0.0.5", "worker1", ""},
		{abc, "2001:db8::1%eth0", "node-b", ""},
		{workers, "fd00::50%eth1", "worker4", ""},
		{abc, "2001:0db8:0:0:0:0:0:1", "node-b", "1aee61dd"},

		{[]string{"node-b"}, "10.0.0.5", "node-b", ""},
		{[]string{"node-a", "node-a", "node-b"}, "10.0.0.5", "node-a", ""},
		{nil, "10.0.0.5", "", ""},
	}
	for _, tt := range tests {
		got := election.Winner(ip(tt.ip), tt.candidates)
		if got != tt.want {
			t.Errorf("%s among %v: got %q, want %q", tt.ip, tt.candidates, got, tt.want)
		}
		sum := sha256.Sum256([]byte(got + "#" + ip(tt.ip).Unmap().String()))
		if hash := hex.EncodeToString(sum[:]); !strings.HasPrefix(hash, tt.wantHash) {
			t.Errorf("%s: the hash of %s is %s, want %s", tt.ip, got, hash, tt.wantHash)
		}
	}
}

var anIP = rapid.Custom(func(t *rapid.T) netip.Addr {
	last := rapid.Byte().Draw(t, "last")
	if rapid.Bool().Draw(t, "v6") {
		return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 15: last})
	}
	return netip.AddrFrom4([4]byte{192, 0, 2, last})
})

// Only the addresses of the lost node move.
func TestLosingANodeMovesOnlyItsAddresses(t *testing.T) {
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9-]{0,12}`), 2, 20, rapid.ID[string])
	rapid.Check(t, func(t *rapid.T) {
		a, nodes := anIP.Draw(t, "ip"), names.Draw(t, "nodes")
		lost, rest := nodes[0], nodes[1:]
		before, after := election.Winner(a, nodes), election.Winner(a, rest)
		if before != lost && before != after {
			t.Errorf("%s moved from %s to %s when %s was lost", a, before, after, lost)
		}
	})
}

func TestWinnerAllocatesNothingForACandidate(t *testing.T) {
	a := ip("2001:db8::1")
	one := testing.AllocsPerRun(100, func() { election.Winner(a, workers[:1]) })
	four := testing.AllocsPerRun(100, func() { election.Winner(a, workers) })
	if four > one {
		t.Errorf("%v allocations for one candidate and %v for four", one, four)
	}
}

func TestAtMostFewNodesSpeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, n := anIP.Draw(t, "ip"), rapid.IntRange(0, 200).Draw(t, "nodes")
		var nodes []string
		for i := range n {
			nodes = append(nodes, fmt.Sprintf("node-%d", i))
		}
		var speaks []string
		for _, node := range nodes {
			if election.Speaks(node, a, nodes) {
				speaks = append(speaks, node)
			}
		}
		if len(speaks) != min(n, 16) {
			t.Fatalf("%d of %d nodes speak: %v", len(speaks), n, speaks)
		}
		if n > 0 && !slices.Contains(speaks, election.Winner(a, nodes)) {
			t.Errorf("the node with the lowest hash is not among %v", speaks)
		}
		if election.Speaks("stranger", a, nodes) {
			t.Errorf("a node outside of the cluster speaks for %d nodes", n)
		}
	})
}

func TestOtherNodesSpeakAboutOtherAddresses(t *testing.T) {
	var nodes []string
	for i := range 100 {
		nodes = append(nodes, fmt.Sprintf("node-%d", i))
	}
	speaks := map[string]bool{}
	for _, a := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"} {
		for _, node := range nodes {
			speaks[node] = speaks[node] || election.Speaks(node, ip(a), nodes)
		}
		nodes = slices.Clone(nodes)
		slices.Reverse(nodes) // in any order
	}
	n := 0
	for _, does := range speaks {
		if does {
			n++
		}
	}
	if n <= 16 || n > 48 {
		t.Errorf("%d nodes speak about three addresses", n)
	}
}
