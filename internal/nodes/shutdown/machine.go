package shutdown

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"purelb.io/purelb/internal/backoff"
)

const (
	// signFor is how long to wait for a sign. A kubelet that gets SIGTERM at the same time as this
	// process takes some milliseconds to stop.
	signFor = 150 * time.Millisecond
	// together is the longest time between two signals that belong together.
	together = 200 * time.Millisecond
	// meetAgain is the pause between two connections to the kubelet. lately is the greatest age of
	// the last accepted one: if the kubelet stopped earlier, the machine is not going down now.
	meetAgain = 10 * time.Second
	lately    = 30 * time.Second
)

// Machine notices whether the machine goes down when this process gets SIGTERM. It uses two signs
// that need no rights:
//
//   - SIGCONT comes together with SIGTERM. systemd sends both to all processes of a
//     unit that it stops (systemd.kill(5)), and to all processes that are left when it
//     shuts the machine down. Other programs that shut machines down do so too. A kubelet
//     or a container runtime that ends a container sends SIGTERM alone.
//   - The kubelet refuses connections, although it has accepted one lately. Then the
//     kubelet did not end this container, and no program will start it again.
type Machine struct {
	// connect connects to the health endpoint of this node's kubelet. With nil there are no
	// connections.
	connect func(context.Context) error
	// accepted is when the kubelet last accepted a connection.
	accepted atomic.Pointer[time.Time]
	// both is closed when both signals have arrived.
	both chan struct{}
}

// DefaultKubelet is the default health endpoint of a kubelet (healthzBindAddress,
// healthzPort).
const DefaultKubelet = "127.0.0.1:10248"

// Kubelet parses the value of a flag: "host:port", or "none". It returns "" for "none".
func Kubelet(text string) (string, error) {
	if text == "none" {
		return "", nil
	}
	host, port, err := net.SplitHostPort(text)
	if _, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || host == "" {
		return "", fmt.Errorf("%q is not an address such as %s, and not none", text, DefaultKubelet)
	}
	return text, nil
}

// WatchMachine returns a Machine that watches for signs until ctx is done. kubelet is the
// "host:port" of the kubelet on this node. If it is "", Machine does not connect to the kubelet.
func WatchMachine(ctx context.Context, kubelet string) *Machine {
	m := &Machine{connect: dialing(kubelet), both: make(chan struct{})}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGCONT)
	go m.follow(signals)
	go m.meet(ctx)
	return m
}

// dialing returns a function that connects to address, or nil for "".
func dialing(address string) func(context.Context) error {
	if address == "" {
		return nil
	}
	return func(ctx context.Context) error {
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = connection.Close()
		}
		return err
	}
}

// follow records when both signals have come together.
func (m *Machine) follow(signals <-chan os.Signal) {
	last := map[os.Signal]time.Time{}
	for s := range signals {
		last[s] = time.Now()
		told, continued := last[syscall.SIGTERM], last[syscall.SIGCONT]
		if !told.IsZero() && told.Sub(continued).Abs() <= together {
			close(m.both)
			return
		}
	}
}

// meet connects to the kubelet at intervals.
func (m *Machine) meet(ctx context.Context) {
	for m.connect != nil && ctx.Err() == nil {
		m.refused(ctx)
		backoff.Sleep(ctx, meetAgain)
	}
}

// refused reports whether the kubelet refuses a connection.
func (m *Machine) refused(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, signFor)
	defer cancel()
	err := m.connect(ctx)
	if err == nil {
		now := time.Now()
		m.accepted.Store(&now)
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// sign returns the sign that the machine goes down, or "" if there is none so far.
func (m *Machine) sign(ctx context.Context) string {
	if m == nil {
		return ""
	}
	select {
	case <-m.both:
		return "systemd ends the process: SIGCONT came with SIGTERM"
	default:
	}
	if m.connect == nil || !m.refused(ctx) {
		return ""
	}
	if accepted := m.accepted.Load(); accepted != nil && time.Since(*accepted) <= lately {
		return "the kubelet has stopped"
	}
	return ""
}
