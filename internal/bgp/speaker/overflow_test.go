package speaker

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

// panicsInto is an environment variable. With it the test keeps its trace in a file, and panics.
const panicsInto = "SPEAKER_TEST_PANICS_INTO"

func TestTheTraceOfAPanicIsKept(t *testing.T) {
	if path := os.Getenv(panicsInto); path != "" {
		if _, err := keepTrace(path); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { panic("for the test") }()
		<-done
	}
	path := filepath.Join(t.TempDir(), "panic.txt")
	child := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), panicsInto+"="+path)
	if out, err := child.CombinedOutput(); err == nil {
		t.Fatalf("the child does not panic:\n%s", out)
	}
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "panic: for the test") || !strings.Contains(string(text), t.Name()) {
		t.Errorf("the file has %q, %v; want the trace of the panic", text, err)
	}
}

func TestOnlyAnOverflowIsRemembered(t *testing.T) {
	const packing = "panic: runtime error: makeslice: cap out of range\n\ngoroutine 165 [running]:\ngithub.com/osrg/gobgp/v4/internal/pkg/table.(*packerV4).pack.func1(...)\n"
	path := filepath.Join(t.TempDir(), "panic.txt")
	starts := func(want bool) {
		t.Helper()
		if got, err := keepTrace(path); got != want || err != nil {
			t.Errorf("after a start it is %v, %v; want %v", got, err, want)
		}
	}
	starts(false)
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("panic: another one\n")
	starts(false)
	if left, _ := os.ReadFile(path); len(left) > 0 {
		t.Errorf("the file still has %q", left)
	}
	write(packing + strings.Repeat("x", 2*mostTraces))
	starts(true)
	starts(true)
	if left, _ := os.ReadFile(path); len(left) != mostTraces {
		t.Errorf("the file has %d bytes, want %d", len(left), mostTraces)
	}
}

func TestASpeakerThatOverflowedPassesNothingOn(t *testing.T) {
	overflowed := func(w *world) { w.speaker.Overflowed = true }
	inWorld(t, `{global: {asn: 65000, allowTransit: true}}`, overflowed, func(w *world) {
		if got := w.server.state.Export.Statements; len(got) == 0 || got[0].Name != "purelb:transit external" {
			t.Errorf("the export policy is %+v", got)
		}
		expect.Contains(t, "state", w.state(), "this node passes on no routes")
	})
}
