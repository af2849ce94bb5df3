package router

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Watch records what happens in a network namespace.
type Watch[T any] struct {
	done chan struct{}
	mu   sync.Mutex
	seen []T
	err  error
}

// Seen returns what was recorded so far. If the kernel lost messages, Seen returns an error, because
// the result may lack something.
func (w *Watch[T]) Seen() ([]T, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return nil, fmt.Errorf("follow the kernel: %w", w.err)
	}
	return slices.Clone(w.seen), nil
}

// Stop ends the watch.
func (w *Watch[T]) Stop() { close(w.done) }

func (w *Watch[T]) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

// follow subscribes to messages of the network namespace at path, and records what read makes of them.
func follow[M, T any](path string, subscribe func(w *Watch[T], ns *netns.NsHandle, messages chan M) error, read func(M) (T, bool)) (*Watch[T], error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return nil, fmt.Errorf("open network namespace %s: %w", path, err)
	}
	defer ns.Close()
	w, messages := &Watch[T]{done: make(chan struct{})}, make(chan M, 1024)
	if err := subscribe(w, &ns, messages); err != nil {
		return nil, fmt.Errorf("follow the kernel: %w", err)
	}
	go func() {
		for m := range messages {
			if seen, ok := read(m); ok {
				w.mu.Lock()
				w.seen = append(w.seen, seen)
				w.mu.Unlock()
			}
		}
	}()
	return w, nil
}

// buffer is the size of the kernel's buffer for messages.
const buffer = 4 << 20

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

// Follow starts to follow the routes that the network namespace at path learns.
func Follow(path string) (*Watch[Event], error) {
	return follow(path, func(w *Watch[Event], ns *netns.NsHandle, messages chan netlink.RouteUpdate) error {
		return netlink.RouteSubscribeWithOptions(messages, w.done, netlink.RouteSubscribeOptions{
			Namespace: ns, ReceiveBufferSize: buffer, ReceiveBufferForceSize: true, ErrorCallback: w.fail,
		})
	}, func(u netlink.RouteUpdate) (Event, bool) {
		if u.Protocol != unix.RTPROT_BGP || u.Dst == nil {
			return Event{}, false
		}
		return Event{At: time.Now(), Gone: u.Type == unix.RTM_DELROUTE, Route: route(u.Route)}, true
	})
}

// Added is an address that an interface got, or had when the watch began.
type Added struct {
	At      time.Time
	Address netip.Addr
}

// FollowAddresses starts to follow the addresses that interfaces of the network namespace at path have.
// It begins with the current addresses.
func FollowAddresses(path string) (*Watch[Added], error) {
	return follow(path, func(w *Watch[Added], ns *netns.NsHandle, messages chan netlink.AddrUpdate) error {
		return netlink.AddrSubscribeWithOptions(messages, w.done, netlink.AddrSubscribeOptions{
			Namespace: ns, ListExisting: true, ReceiveBufferSize: buffer, ReceiveBufferForceSize: true, ErrorCallback: w.fail,
		})
	}, func(u netlink.AddrUpdate) (Added, bool) {
		return Added{time.Now(), prefix(&u.LinkAddress).Addr()}, u.NewAddr
	})
}
