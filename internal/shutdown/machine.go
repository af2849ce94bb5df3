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
)

const (
	// signFor is how long a sign is waited for: a kubelet that is told to end at the same
	// time as this process takes some milliseconds.
	signFor = 150 * time.Millisecond
	// together is how far apart the signals are at most that belong to each other.
	together = 200 * time.Millisecond
	// meetAgain is the pause between two questions to the kubelet, and lately how long ago
	// its last answer may be: one that stopped before that is no news.
	meetAgain = 10 * time.Second
	lately    = 30 * time.Second
)

// Machine notices whether the machine goes down when this process is told to end. It
// goes by two signs, for which it needs no rights:
//
//   - SIGCONT comes together with SIGTERM. systemd sends both to all processes of a
//     unit that it stops (systemd.kill(5)), and to all processes that are left when it
//     shuts the machine down; so do other programs that shut machines down. A kubelet
//     or a container runtime that ends a container sends SIGTERM alone.
//   - The kubelet refuses connections, although it has accepted one lately. Then it did
//     not end this container, and nothing will start it again.
type Machine struct {
	// connect connects to where the kubelet of this node says that it is healthy; nil:
	// it is not asked.
	connect func(context.Context) error
	// accepted is when it accepted a connection last.
	accepted atomic.Pointer[time.Time]
	// both is closed when both signals have come.
	both chan struct{}
}

// DefaultKubelet is where a kubelet says that it is healthy if it is not configured
// otherwise (healthzBindAddress, healthzPort).
const DefaultKubelet = "127.0.0.1:10248"

// Kubelet reads what a flag says of the kubelet: "host:port", or "none" for "".
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

// WatchMachine begins to notice signs. The kubelet is at "host:port" on this node; "":
// it is not asked. It is asked until ctx is done.
func WatchMachine(ctx context.Context, kubelet string) *Machine {
	m := &Machine{connect: dialing(kubelet), both: make(chan struct{})}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGCONT)
	go m.follow(signals)
	go m.meet(ctx)
	return m
}

// dialing returns what connects to address; nil if that is "".
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

// follow notes when both signals have come together.
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

// meet asks the kubelet again and again.
func (m *Machine) meet(ctx context.Context) {
	for m.connect != nil && ctx.Err() == nil {
		m.refused(ctx)
		pause(ctx, meetAgain)
	}
}

// refused says whether the kubelet refuses a connection.
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

// sign returns how it is known by now that the machine goes down, or "".
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
