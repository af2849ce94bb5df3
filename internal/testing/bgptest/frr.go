package bgptest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// frrHome is where Debian installs the daemons of FRR, and vtysh is its shell.
const (
	frrHome = "/usr/lib/frr/"
	vtysh   = "/usr/bin/vtysh"
)

// Router is a namespace in which a routing daemon runs.
type Router struct {
	*Namespace
	suite Suite
	t     testing.TB
	dir   string
	// ask puts a question to the daemon.
	ask  func(question string) (string, error)
	runs []*exec.Cmd
}

// FRR runs the FRR of this machine in n. See Suite.FRR.
func FRR(t testing.TB, n *Namespace, config string) *Router {
	t.Helper()
	return Suite{}.FRR(t, n, config)
}

// FRR runs zebra, bgpd and bfdd of FRR in n, with config as vtysh takes it. A
// line that FRR does not know fails the test.
func (s Suite) FRR(t testing.TB, n *Namespace, config string) *Router {
	t.Helper()
	r := &Router{Namespace: n, suite: s, t: t, dir: routerDir(t)}
	shell := func(args ...string) (string, error) {
		return n.output(s.command(vtysh, append([]string{"--vty_socket", r.dir, "--config_dir", r.dir}, args...)...))
	}
	r.ask = func(question string) (string, error) { return shell("-c", question) }
	r.file("vtysh.conf", "")
	r.file("empty.conf", "")
	r.daemon("zebra", "-s", "90000000")
	r.daemon("bgpd", "-p", "179")
	r.daemon("bfdd", r.controlSocket()...)
	if out, err := shell("-f", r.file("frr.conf", config)); err != nil {
		t.Fatalf("configure FRR: %v\n%s", err, out)
	}
	return r
}

// controlSocket returns the option of bfdd for its control socket, which all bfdd would share. FRR 10,
// as in Debian 13, has no such socket.
func (r *Router) controlSocket() []string {
	if help, _ := r.suite.command(frrHome+"bfdd", "--help").CombinedOutput(); !strings.Contains(string(help), "--bfdctl") {
		return nil
	}
	return []string{"--bfdctl", r.path("bfdd.sock")}
}

// routerDir makes a directory that the user of FRR can enter.
func routerDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bgptest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if u, err := user.Lookup("frr"); err == nil {
		uid, _ := strconv.Atoi(u.Uid)
		if err := os.Chown(dir, uid, -1); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (r *Router) path(name string) string { return filepath.Join(r.dir, name) }

func (r *Router) file(name, text string) string {
	r.t.Helper()
	if err := os.WriteFile(r.path(name), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
	return r.path(name)
}

// daemon starts one of FRR's, and waits until it takes commands.
func (r *Router) daemon(name string, args ...string) {
	r.t.Helper()
	args = append(args, "-z", r.path("zserv.api"), "--vty_socket", r.dir, "-i", r.path(name+".pid"),
		"-P", "0", "-f", r.path("empty.conf"), "--log", "file:"+r.path(name+".log"))
	cmd := r.run(frrHome+name, args...)
	r.t.Cleanup(func() { // where a crash would be logged, whatever the options say
		_ = os.RemoveAll(fmt.Sprintf("/var/tmp/frr/%s.%d", name, cmd.Process.Pid))
	})
	r.answers(name + ".vty")
}

// run starts a program that ends with the test.
func (r *Router) run(name string, args ...string) *exec.Cmd {
	r.t.Helper()
	log, err := os.Create(r.path(filepath.Base(name) + ".out"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	cmd := r.suite.command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := r.Start(cmd); err != nil {
		r.t.Fatalf("start %s, which this test needs: %v", name, err)
	}
	r.runs = append(r.runs, cmd)
	r.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return cmd
}

// Kill ends the router's daemons without a word, as a loss of power does. Their
// kernel routes stay.
func (r *Router) Kill() {
	for _, cmd := range r.runs {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_, _ = cmd.Process.Wait()
	}
}

// answers waits until a daemon takes connections at its socket. The file is there a
// moment before.
func (r *Router) answers(name string) {
	r.t.Helper()
	there := Eventually(func() bool {
		conn, err := net.Dial("unix", r.path(name))
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	if !there {
		r.t.Fatalf("%s did not start:\n%s", name, r.Log())
	}
}

// Log is what the daemons wrote.
func (r *Router) Log() string {
	var b strings.Builder
	for _, pattern := range []string{"*.out", "*.log"} {
		names, _ := filepath.Glob(r.path(pattern))
		for _, name := range names {
			text, _ := os.ReadFile(name)
			fmt.Fprintf(&b, "%s:\n%s", filepath.Base(name), text)
		}
	}
	return b.String()
}

// Ask puts a question to the router, in the words of vtysh or birdc, such as
// "show bgp summary". Lines of vtysh may be several, for configuration.
func (r *Router) Ask(question string) string {
	r.t.Helper()
	out, err := r.ask(question)
	if err != nil {
		r.t.Fatalf("ask the router %q: %v\n%s", question, err, out)
	}
	return out
}

// AwaitSays waits until the answer to a question contains a text.
func (r *Router) AwaitSays(question, text string) {
	r.t.Helper()
	var last string
	if !Eventually(func() bool { last, _ = r.ask(question); return strings.Contains(last, text) }) {
		r.t.Fatalf("the router never says %q to %q, but\n%s\n%s", text, question, last, r.Log())
	}
}
