package gobgp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"purelb.io/purelb/internal/bgp/bfd"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/bgptest"
	"purelb.io/purelb/internal/testing/expect"
)

// childVariable is an environment variable. With it the test binary is a speaker in a process of
// its own, so that a test can kill it.
const childVariable = "GOBGP_TEST_SPEAKER"

// orders say what a speaker in its own process does.
type orders struct {
	State      peering.State
	Routes     []peering.Route
	Restarting bool
	// Late says that the neighbors are added only after the server has started.
	Late bool
	// BFD are the neighbors with BFD.
	BFD []netip.Addr
}

// watch starts BFD with the neighbors.
func (o orders) watch(ctx context.Context) (*bfd.Engine, error) {
	engine := bfd.New(slog.New(slog.DiscardHandler))
	var sessions []bfd.Session
	for _, a := range o.BFD {
		sessions = append(sessions, bfd.Session{Peer: a, MinTransmit: bfdInterval, MinReceive: bfdInterval, Multiplier: bfdMultiplier})
	}
	return engine, engine.Set(ctx, sessions)
}

// speak carries out the orders that it reads from stdin. The last line of stdin says how it stops.
func speak() int {
	in := bufio.NewReader(os.Stdin)
	fail := func(err error) int {
		fmt.Println("speaker:", err)
		return 1
	}
	line, err := in.ReadString('\n')
	if err != nil {
		return fail(err)
	}
	var o orders
	if err := json.Unmarshal([]byte(line), &o); err != nil {
		return fail(err)
	}
	s := patientServer(slog.New(slog.DiscardHandler))
	ctx := context.Background()
	if err := s.Announce(ctx, o.Routes); err != nil {
		return fail(err)
	}
	if o.Late {
		alone := o.State
		alone.Peers = nil
		if _, err := s.beginWith(ctx, alone, o.Restarting); err != nil {
			return fail(err)
		}
	}
	problems, err := s.beginWith(ctx, o.State, o.Restarting && !o.Late)
	if err != nil || len(problems) > 0 {
		return fail(fmt.Errorf("%w %v", err, problems))
	}
	watching, err := o.watch(ctx)
	if err != nil {
		return fail(err)
	}
	fmt.Println("speaking")
	line, err = in.ReadString('\n')
	if err != nil {
		return fail(err)
	}
	if err := o.end(ctx, s, watching, strings.TrimSpace(line) == "graceful"); err != nil {
		return fail(err)
	}
	return 0
}

// end stops as the speaker of a node does. Before a final end, it asks routers for a second to
// prefer other nodes. After a graceful end of BGP, it waits before it ends BFD.
func (o orders) end(ctx context.Context, s *Server, watching *bfd.Engine, graceful bool) error {
	if !graceful {
		for i := range o.Routes {
			o.Routes[i].Attributes.Communities = []uint32{0xffff0000}
		}
		if err := s.Announce(ctx, o.Routes); err != nil {
			return err
		}
		time.Sleep(time.Second) // as long as speaker.askFor
	}
	if err := s.Stop(ctx, graceful); err != nil {
		return err
	}
	if graceful {
		time.Sleep(500 * time.Millisecond) // as long as speaker.bfdAfter
	}
	return watching.Close(ctx)
}

// speaker is a Server in its own process.
type speaker struct {
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

func startSpeaker(t testing.TB, o orders) *speaker {
	t.Helper()
	return startSpeakerIn(t, bgptest.Here(t), o)
}

// startSpeakerIn starts the speaker of another node.
func startSpeakerIn(t testing.TB, n *bgptest.Namespace, o orders) *speaker {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childVariable+"=1")
	stdin, err := cmd.StdinPipe()
	expect.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	expect.NoError(t, err)
	expect.NoError(t, n.Start(cmd))
	s := &speaker{t: t, cmd: cmd, stdin: stdin}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	text, err := json.Marshal(o)
	expect.NoError(t, err)
	if _, err := fmt.Fprintf(stdin, "%s\n", text); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "speaking\n" {
		t.Fatalf("the speaker prints %q, %v; want that it has started", line, err)
	}
	return s
}

// kill ends the process as a crash does.
func (s *speaker) kill() {
	s.t.Helper()
	expect.NoError(s.t, s.cmd.Process.Signal(syscall.SIGKILL))
	_ = s.cmd.Wait()
}

// stop ends the process as SIGTERM does.
func (s *speaker) stop(how string) {
	s.t.Helper()
	s.tell(how)
	s.awaitEnd()
}

func (s *speaker) tell(how string) {
	s.t.Helper()
	if _, err := fmt.Fprintln(s.stdin, how); err != nil {
		s.t.Fatal(err)
	}
}

func (s *speaker) awaitEnd() {
	s.t.Helper()
	if err := s.cmd.Wait(); err != nil {
		s.t.Fatalf("the speaker does not stop: %v", err)
	}
}
