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
	// signLimit is how long a sign is waited for: a kubelet that is told to end at
	// the same time as this process takes some milliseconds.
	signLimit = 150 * time.Millisecond
	// signPause is the pause between two questions to the kubelet.
	signPause = 20 * time.Millisecond
	// together is how far apart the signals are at most that belong to each other.
	together = 200 * time.Millisecond
)

// Machine notices whether the machine goes down when this process is told to end. It
// goes by two signs, for which it needs no rights:
//
//   - SIGCONT comes together with SIGTERM. systemd sends both to all processes of a
//     unit that it stops (systemd.kill(5)), and to all processes that are left when it
//     shuts the machine down; so do other programs that shut machines down. A kubelet
//     or a container runtime that ends a container sends SIGTERM alone.
//   - The kubelet refuses connections, although it has accepted one before. Then it did
//     not end this container, and nothing will start it again.
type Machine struct {
	// kubelet is where the kubelet of this node says that it is healthy.
	kubelet string
	// answered says that it has accepted a connection.
	answered atomic.Bool
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
// it is not asked. It is asked until it has answered once, or ctx is done.
func WatchMachine(ctx context.Context, kubelet string) *Machine {
	m := &Machine{kubelet: kubelet, both: make(chan struct{})}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGCONT)
	go m.follow(signals)
	go m.meet(ctx)
	return m
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

// meet asks the kubelet until it has answered once.
func (m *Machine) meet(ctx context.Context) {
	for m.kubelet != "" && ctx.Err() == nil {
		if m.refused(ctx); m.answered.Load() {
			return
		}
		pause(ctx, askAgain)
	}
}

// refused says whether the kubelet refuses a connection.
func (m *Machine) refused(ctx context.Context) bool {
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.kubelet)
	if err == nil {
		m.answered.Store(true)
		_ = connection.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// sign returns how it is known that the machine goes down, or "".
func (m *Machine) sign(ctx context.Context) string {
	if m == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, signLimit)
	defer cancel()
	for {
		select {
		case <-m.both:
			return "systemd ends the process: SIGCONT came with SIGTERM"
		case <-ctx.Done():
			return ""
		case <-time.After(signPause):
			if m.answered.Load() && m.refused(ctx) {
				return "the kubelet has stopped"
			}
		}
	}
}
