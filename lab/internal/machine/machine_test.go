package machine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"purelb.io/purelb/lab/internal/cgroup"
	"purelb.io/purelb/lab/internal/state"
)

// The test binary is also the first process of the machines that the tests start.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 {
		lives := map[string]func(string) error{EnterCommand: EnterMain, InitCommand: InitMain}
		if live, ok := lives[os.Args[1]]; ok {
			fmt.Fprintln(os.Stderr, live(os.Args[2]))
			os.Exit(1)
		}
	}
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "these tests make namespaces: run them as root")
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestMachineHasItsOwnNamespaces(t *testing.T) {
	m := start(t, Program{Name: "sleep", Args: []string{"/bin/sleep", "1000"}})
	m.must(m.orders.Start("sleep"))
	got := m.sh("hostname; cat /etc/hostname /etc/resolv.conf /etc/greeting; cat /proc/1/comm; ls /run; ls /sys/class/net")
	want := "box\nbox\nhello\n" + filepath.Base(m.program) + "\nlab\nlock\nnetns\nlo\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHostDoesNotSeeAMachinesFiles(t *testing.T) {
	m := start(t)
	m.sh("mkdir /var/lib/lab-test && touch /etc/lab-test /var/log/lab-test && echo 0 >/proc/sys/kernel/panic_on_oops && echo kept >/var/lib/disk/file")
	for _, file := range []string{"/etc/lab-test", "/var/lib/lab-test", "/var/log/lab-test", "/var/lib/disk"} {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("the host has %s", file)
		}
	}
	if b, err := os.ReadFile(filepath.Join(m.disk, "file")); string(b) != "kept\n" {
		t.Errorf("the disk has %q, %v", b, err)
	}
}

func TestAMachineIsInItsOwnControlGroups(t *testing.T) {
	m := start(t)
	for line := range strings.Lines(m.sh("cat /proc/1/cgroup")) {
		if path := strings.TrimSpace(line[strings.LastIndexByte(line, ':')+1:]); path != "/" && path != "/machine" {
			t.Errorf("the first process is in %s", line)
		}
	}
	if got := m.sh("ls /sys/fs/cgroup | head -1"); got == "" {
		t.Error("no control groups are mounted")
	}
}

func TestKillingTheFirstProcessEndsThemAll(t *testing.T) {
	m := start(t, Program{Name: "shell", Args: []string{"/bin/sh", "-c", "sleep 1001 & setsid sleep 1002 & wait"}})
	m.must(m.orders.Start("shell"))
	inside := m.processes()
	for len(inside) < 4 { // the first process, the shell and the two children of the shell
		m.wait()
		inside = m.processes()
	}
	m.must(m.first.Kill())
	for _, pid := range inside {
		if p, err := state.Identify(pid); err == nil && p.Alive() {
			t.Errorf("process %d is alive", pid)
		}
	}
}

func TestProgramsEndAndStartAgain(t *testing.T) {
	m := start(t,
		Program{Name: "three", Args: []string{"/bin/sh", "-c", "exit 3"}},
		Program{Name: "nothing", Args: []string{"/bin/true"}, Once: true},
		Program{Name: "sleep", Args: []string{"/bin/sleep", "1000"}})
	for _, p := range []string{"three", "nothing", "sleep"} {
		m.must(m.orders.Start(p))
	}
	m.until("three", "exit 3")
	m.until("nothing", "exit 0")
	m.until("sleep", "running")
	m.must(m.orders.Signal("sleep", syscall.SIGKILL))
	m.until("sleep", "killed by SIGKILL")
	if err := m.orders.Signal("sleep", syscall.SIGKILL); err == nil {
		t.Error("a signal to a program that does not run was accepted")
	}
	m.must(m.orders.Start("sleep"))
	m.until("sleep", "running")
	if err := m.orders.Start("unknown"); err == nil {
		t.Error("an unknown program was started")
	}
}

func TestASocketMayHaveALongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long/", 40))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := listen(filepath.Join(dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := dial(filepath.Join(dir, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestCommandsKeepTheUsersEnvironment(t *testing.T) {
	s := Spec{Path: "/lab/bin", Env: []string{"KUBECONFIG=/lab/admin"}}
	got := s.Environment([]string{"TERM=xterm", "KUBECONFIG=/home/me/production"})
	want := []string{"TERM=xterm", "PATH=/lab/bin", "KUBECONFIG=/lab/admin"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// box is a machine under test.
type box struct {
	*testing.T
	name, disk, program string
	first               state.Process
	orders              Orders
	limit               time.Time
}

func start(t *testing.T, programs ...Program) *box {
	t.Helper()
	dir := t.TempDir()
	m := &box{T: t, name: fmt.Sprintf("labtest%d", os.Getpid()), disk: filepath.Join(dir, "disk"), program: os.Args[0], limit: time.Now().Add(time.Minute)}
	m.orders = Orders{filepath.Join(dir, "orders.sock")}
	groups, err := cgroup.Discover(m.name)
	m.must(err)
	m.must(groups.Create("box"))
	t.Cleanup(func() {
		m.must(m.first.Kill())
		m.must(groups.Remove(""))
	})
	m.must(Start(Spec{
		Name: "box", Group: m.name, Cgroups: true, Keep: []string{dir}, Disks: map[string]string{"/var/lib/disk": m.disk},
		Files:    []File{{"/etc/greeting", "hello\n"}},
		Programs: programs, Path: os.Getenv("PATH"), Socket: m.orders.Socket, Logs: dir,
	}, Birth{
		Program: m.program, SpecFile: filepath.Join(dir, "spec.json"), Log: filepath.Join(dir, "init.log"),
		Netns: netns(t),
		Record: func(pid int) (err error) {
			m.first, err = state.Identify(pid)
			return err
		},
	}))
	return m
}

// netns returns the path of a network namespace that exists until the test ends.
func netns(t *testing.T) string {
	path, done := make(chan string), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
		}
		path <- fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		<-done
	}()
	t.Cleanup(func() { close(done) })
	return <-path
}

// sh runs a shell command in the machine.
func (m *box) sh(script string) string {
	m.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, "/"
	m.must(Inside(m.first.PID, cmd.Start))
	if err := cmd.Wait(); err != nil {
		m.Fatalf("%s: %v\n%s", script, err, out.String())
	}
	return out.String()
}

// processes returns the processes of the machine, by the host's process ids.
func (m *box) processes() []int {
	ns := func(pid any) string {
		link, _ := os.Readlink(fmt.Sprintf("/proc/%v/ns/pid", pid))
		return link
	}
	own := ns(m.first.PID)
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		var pid int
		if _, err := fmt.Sscan(filepath.Base(d), &pid); err == nil && ns(pid) == own {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (m *box) until(program, want string) {
	m.Helper()
	var got string
	for got != want {
		m.wait()
		all, err := m.orders.List()
		m.must(err)
		for _, p := range all {
			if p.Name == program {
				got = p.Ended
				if p.Running {
					got = "running"
				}
			}
		}
	}
}

// wait sleeps briefly. It fails the test after the time limit.
func (m *box) wait() {
	m.Helper()
	if time.Now().After(m.limit) {
		m.Fatal("the time limit of the test is over")
	}
	time.Sleep(5 * time.Millisecond)
}

func (m *box) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}
