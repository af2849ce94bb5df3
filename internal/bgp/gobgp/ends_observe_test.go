package gobgp

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// probeEvery is the time between two probes of a router to an address. The node that gets a probe
	// answers.
	probeEvery = 200 * time.Millisecond
	// probeLimit is the time in which an answer must arrive.
	probeLimit = 5 * time.Second
)

// observe ends all nodes, and watches the routers at the same time.
func observe(t *testing.T, nodes []*endingNode, routers []*endingRouter) {
	t.Helper()
	stop := make(chan struct{})
	var watching sync.WaitGroup
	for _, r := range routers {
		watching.Go(func() { r.watch(nodes, stop) })
		watching.Go(func() { r.probe(nodes, stop) })
	}
	// One full round of probes shows that everything works.
	time.Sleep(2 * probeEvery)
	began := time.Now()
	for _, n := range nodes {
		n.begin()
	}
	time.Sleep(time.Until(began.Add(powerAfter)))
	for _, n := range nodes {
		n.losePower()
	}
	time.Sleep(time.Until(began.Add(awayFor)))
	for _, n := range nodes {
		n.comeBack()
	}
	time.Sleep(time.Until(began.Add(observed)))
	close(stop)
	watching.Wait()
}

// begin starts the end of the node.
func (n *endingNode) begin() {
	n.began = time.Now()
	switch {
	case n.killed:
		n.speaker.kill()
	case n.forGood:
		n.speaker.tell("for good")
	case n.spoken:
		n.speaker.tell("graceful")
	}
}

// losePower disconnects a node that dies. Its speaker has ended before, if it ends at all.
func (n *endingNode) losePower() {
	if n.spoken && !n.killed {
		n.speaker.awaitEnd()
	}
	if n.dead {
		n.began = time.Now()
		n.port.Cut()
	}
}

// comeBack starts the speaker of a node that does not die.
func (n *endingNode) comeBack() {
	if n.dead {
		return
	}
	o := n.orders
	o.Restarting = n.gracefulRestart
	n.speaker = startSpeakerIn(n.speaker.t, n.Namespace, o)
}

// watch records for each node when the router first has no route to it.
func (r *endingRouter) watch(nodes []*endingNode, stop <-chan struct{}) {
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-stop:
			return
		case <-every.C:
		}
		found, at := r.Routes(), time.Now()
		for _, n := range nodes {
			if r.gone[n].IsZero() && !slices.ContainsFunc(found, n.carries) {
				r.gone[n] = at
			}
		}
	}
}

// probe sends to the addresses of all nodes, and counts the probes without an answer.
func (r *endingRouter) probe(nodes []*endingNode, stop <-chan struct{}) {
	type attempt struct {
		node *endingNode
		fd   int
		at   time.Time
	}
	var open []attempt
	close := func(a attempt) bool {
		fds := []unix.PollFd{{Fd: int32(a.fd), Events: unix.POLLIN}}
		answered, _ := unix.Poll(fds, 0)
		late := time.Since(a.at) > probeLimit
		if answered == 0 && !late {
			return false
		}
		code, err := unix.GetsockoptInt(a.fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil || answered == 0 || code != 0 {
			r.lost[a.node]++
		}
		_ = unix.Close(a.fd)
		return true
	}
	r.Do(func() {
		for stopped := false; !stopped || len(open) > 0; {
			select {
			case <-stop:
				stopped = true
			case <-time.After(probeEvery):
			}
			open = slices.DeleteFunc(open, close)
			for _, n := range nodes {
				if stopped {
					break
				}
				if fd, ok := n.ask(); ok {
					open = append(open, attempt{n, fd, time.Now()})
				} else {
					r.lost[n]++
				}
			}
		}
	})
}

// ask sends a datagram to the address of the node. Each datagram has a new source port, so the
// router chooses a next hop anew. The kernel does not repeat a datagram. It would repeat the SYN
// of a connection.
func (n *endingNode) ask() (int, bool) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	err = unix.Connect(fd, &unix.SockaddrInet4{Port: echoPort, Addr: n.service().As4()})
	if err == nil {
		_, err = unix.Write(fd, []byte("?"))
	}
	if err != nil {
		_ = unix.Close(fd)
		return 0, false
	}
	return fd, true
}

// table returns the measurements in the form of the table in docs/bgp-tune.md.
func table(nodes []*endingNode, routers []*endingRouter) string {
	var b strings.Builder
	b.WriteString("| Router | BFD | Graceful restart |")
	for _, e := range ends {
		b.WriteString(" " + e.title + " |")
	}
	b.WriteString("\n|" + strings.Repeat("---|", 3+len(ends)) + "\n")
	for _, r := range routers {
		for _, s := range settings {
			if r.bfdOption != "" && !s.bfd {
				continue // an option of BFD changes nothing
			}
			fmt.Fprintf(&b, "| %s | %s | %s |", r.title(), yes(s.bfd), yes(s.gracefulRestart))
			for _, n := range nodes {
				if n.setting == s {
					b.WriteString(" " + r.cell(n) + " |")
				}
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// cell says what the router did with the route to the node. The numbers after the colon differ
// from one measurement to the next.
func (r *endingRouter) cell(n *endingNode) string {
	gone, after := r.gone[n], r.gone[n].Sub(n.began)
	class := r.class(n, after)
	if r.lost[n] > 0 {
		class += ", with loss"
	}
	switch {
	case gone.IsZero() || after < 0:
		return class
	case r.lost[n] > 0:
		return fmt.Sprintf("%s: %.1f s, %d of %d", class, after.Seconds(), r.lost[n], int(after/probeEvery))
	}
	return fmt.Sprintf("%s: %.1f s", class, after.Seconds())
}

// class says what removed the node from the router's table. BFD takes 4 to 5 s, the hold time 16
// to 24 s (10 to 24 s with BIRD, which shortens it at random by up to a quarter), the restart time
// 50 s, and both together 66 to 74 s. The limits lie far from these times.
func (r *endingRouter) class(n *endingNode, after time.Duration) string {
	switch {
	case r.gone[n].IsZero():
		return "stays"
	case after < 0:
		return "leaves before"
	case after < 3500*time.Millisecond:
		return "leaves at once"
	case n.bfd && after < awayFor:
		return "leaves after BFD"
	case after < 40*time.Second:
		return "leaves after the hold time"
	case after < 60*time.Second:
		return "leaves after the restart time"
	}
	return "leaves after the hold time and the restart time"
}
