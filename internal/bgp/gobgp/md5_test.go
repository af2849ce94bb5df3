package gobgp

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

// TestNoNeighborWithAPasswordThatTheKernelRefuses depends on a log message of GoBGP:
// GoBGP reports only there that the kernel refuses a key. A change of that message would
// allow sessions without MD5.
func TestNoNeighborWithAPasswordThatTheKernelRefuses(t *testing.T) {
	// The kernel has no interface of this name, so it refuses the key.
	const gone = "gone0"
	p := peer("192.0.2.2")
	p.Device, p.Password, p.Passive = gone, "secret", true
	newWorld(t)
	s := newServer(t)
	problems := tryApply(t, s, state(p))
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "the kernel does not take the password: ") {
		t.Errorf("the problems are %v, want one about the password", problems)
	}
	if there := neighbors(t, s); len(there) > 0 {
		t.Errorf("a session is possible without the password: %v", there)
	}
}

// counts waits until a counter of TCP in this namespace has grown by n.
func counts(t *testing.T, name string, n int) {
	t.Helper()
	before := counter(t, name)
	if !bgptest.Eventually(func() bool { return counter(t, name) >= before+n }) {
		t.Fatalf("%s does not grow from %d by %d", name, before, n)
	}
}

func counter(t *testing.T, name string) int {
	t.Helper()
	for _, file := range []string{"/proc/net/netstat", "/proc/net/snmp"} {
		text, err := os.ReadFile(file)
		expect.NoError(t, err)
		for pair := range slices.Chunk(strings.Split(string(text), "\n"), 2) {
			if at := slices.Index(strings.Fields(pair[0]), name); at > 0 {
				n, err := strconv.Atoi(strings.Fields(pair[1])[at])
				expect.NoError(t, err)
				return n
			}
		}
	}
	t.Fatalf("the kernel has no counter %s", name)
	return 0
}
