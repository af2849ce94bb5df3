package router

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Event is a change of a learned route.
type Event struct {
	At time.Time
	// Gone says that the route was removed. Otherwise the route was added, or its next hops
	// changed.
	Gone  bool
	Route Route
}

func (e Event) String() string {
	word := "has"
	if e.Gone {
		word = "lost"
	}
	return fmt.Sprintf("%s %s %s", e.At.Format("15:04:05.000"), word, e.Route)
}

// Watch follows the learned routes of a network namespace.
type Watch struct {
	done   chan struct{}
	mu     sync.Mutex
	events []Event
	err    error
}

// Follow starts to follow the routes that the network namespace at path learns.
func Follow(path string) (*Watch, error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", path, err)
	}
	defer ns.Close()
	w := &Watch{done: make(chan struct{})}
	updates := make(chan netlink.RouteUpdate, 1024)
	err = netlink.RouteSubscribeWithOptions(updates, w.done, netlink.RouteSubscribeOptions{
		Namespace: &ns, ReceiveBufferSize: 4 << 20, ReceiveBufferForceSize: true,
		ErrorCallback: w.fail,
	})
	if err != nil {
		return nil, fmt.Errorf("follow routes: %w", err)
	}
	go func() {
		for u := range updates {
			w.record(u)
		}
	}()
	return w, nil
}

func (w *Watch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *Watch) record(u netlink.RouteUpdate) {
	if u.Protocol != unix.RTPROT_BGP || u.Dst == nil {
		return
	}
	e := Event{At: time.Now(), Gone: u.Type == unix.RTM_DELROUTE, Route: route(u.Route)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// Events returns the events so far. If the kernel lost messages, Events returns an error, because
// the result may lack an event.
func (w *Watch) Events() ([]Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return nil, fmt.Errorf("follow routes: %w", w.err)
	}
	return slices.Clone(w.events), nil
}

// Stop ends the watch.
func (w *Watch) Stop() { close(w.done) }
