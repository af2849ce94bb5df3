package machine

import (
	"fmt"
	"net"
	"net/rpc"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Status is the state of a program.
type Status struct {
	Name    string
	Running bool
	Once    bool
	PID     int    // within the machine
	Ended   string // how it ended, if it has
	At      time.Time
}

// Healthy reports whether the program is in its expected state.
func (s Status) Healthy() bool { return s.Running || s.Once && s.Ended == "exit 0" }

// Signal is a request to send a signal to a program.
type Signal struct {
	Program string
	Signal  int
}

// supervisor starts programs and knows which of them run. It restarts none: if a program of the lab
// is down, a test either caused that or must notice it.
type supervisor struct {
	spec Spec

	mu       sync.Mutex
	programs map[string]*Status
}

func newSupervisor(s Spec) *supervisor {
	return &supervisor{spec: s, programs: map[string]*Status{}}
}

func (s *supervisor) serve(l net.Listener) error {
	server := rpc.NewServer()
	if err := server.RegisterName("Machine", &orders{s}); err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go server.ServeConn(conn)
	}
}

// reap collects every process that ends: the programs, and the orphans that the first process of a
// machine inherits.
func (s *supervisor) reap() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	for range ended {
		s.collect()
	}
}

func (s *supervisor) collect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if pid <= 0 {
			return
		}
		for _, p := range s.programs {
			if p.Running && p.PID == pid {
				p.Running, p.Ended, p.At = false, describe(ws), time.Now()
			}
		}
	}
}

func describe(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return "killed by " + unix.SignalName(ws.Signal())
	}
	return fmt.Sprintf("exit %d", ws.ExitStatus())
}

func (s *supervisor) start(name string) error {
	p, known := s.spec.Program(name)
	if !known {
		return fmt.Errorf("%s has no program %q", s.spec.Name, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.programs[name]; st != nil && st.Running {
		return nil
	}
	pid, err := s.fork(p)
	if err != nil {
		return fmt.Errorf("start %s on %s: %w", name, s.spec.Name, err)
	}
	s.programs[name] = &Status{Name: name, Running: true, Once: p.Once, PID: pid, At: time.Now()}
	return nil
}

func (s *supervisor) fork(p Program) (int, error) {
	if p.Ready != "" {
		_ = os.Remove(p.Ready)
	}
	log, err := os.OpenFile(filepath.Join(s.spec.Logs, p.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	files := []uintptr{null.Fd(), log.Fd(), log.Fd()}
	if p.Listener {
		files = append(files, listenerFD)
	}
	return syscall.ForkExec(p.Args[0], p.Args, &syscall.ProcAttr{
		Dir: "/", Env: s.spec.environment(), Files: files, Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

func (s *supervisor) signal(name string, sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.programs[name]
	if p == nil || !p.Running {
		return fmt.Errorf("%s does not run on %s", name, s.spec.Name)
	}
	return syscall.Kill(p.PID, sig)
}

func (s *supervisor) list() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Status
	for _, p := range s.spec.Programs {
		if st := s.programs[p.Name]; st != nil {
			all = append(all, *st)
		} else {
			all = append(all, Status{Name: p.Name, Once: p.Once, Ended: "not started"})
		}
	}
	return slices.Clip(all)
}

// orders has the requests that a machine accepts through its socket.
type orders struct{ s *supervisor }

// Start starts a program. It does nothing if the program runs.
func (o *orders) Start(program string, _ *struct{}) error { return o.s.start(program) }

// Signal sends a signal to a running program.
func (o *orders) Signal(r Signal, _ *struct{}) error {
	return o.s.signal(r.Program, syscall.Signal(r.Signal))
}

// List returns the status of every program, in the order of the spec.
func (o *orders) List(_ struct{}, into *[]Status) error {
	*into = o.s.list()
	return nil
}
