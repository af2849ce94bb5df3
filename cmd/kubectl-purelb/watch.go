package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/vishvananda/netlink"

	"purelb.io/purelb/internal/explain"
)

func newWatch(o *options) *cobra.Command {
	var every, during time.Duration
	cmd := &cobra.Command{
		Use: "watch ADDRESS:PORT", Short: "Connect to a Service again and again, and tell for how long it was away", Args: oneArgument(isAddressPort),
		Long: `Connect by TCP to an address from the machine that this runs on, again and again, until
--for is over or Ctrl-C is pressed. Each connection has its own port, and fails if it is
refused or not there after a second. The answer has the gaps, the time that connections
took, and on Linux the MAC addresses that answered on the local segment, with the times
at which they changed.

It needs no cluster and no PureLB: it measures any load balancer. The exit code is 1 if
a connection failed, or none was tried.`,
		Example: `  kubectl purelb watch 192.0.2.10:80 --for 60s
  kubectl purelb watch [2001:db8::10]:443 --every 100ms -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if every < time.Millisecond {
				return errors.New("--every must be at least 1ms")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			ctx, cancel := context.WithTimeout(ctx, during)
			defer cancel()
			w := watchFrom(ctx, netip.MustParseAddrPort(args[0]), every)
			return o.finish(w, w.Failed > 0 || w.Connections == 0)
		},
	}
	cmd.Flags().DurationVar(&every, "every", 10*time.Millisecond, "The time between two connections")
	cmd.Flags().DurationVar(&during, "for", time.Minute, "How long to connect")
	return cmd
}

func isAddressPort(text string) error {
	if _, err := netip.ParseAddrPort(text); err != nil {
		return fmt.Errorf("%q is no address with a port, such as 192.0.2.10:80 or [2001:db8::10]:80", text)
	}
	return nil
}

// attempt is one connection.
type attempt struct {
	at   time.Time
	took time.Duration
	err  error
}

// answered is a MAC address that the kernel of this machine knows for an address from a time on.
type answered struct {
	At  time.Time `json:"at"`
	MAC string    `json:"mac"`
}

// gap is a time in which no connection succeeded.
type gap struct {
	From time.Time `json:"from"`
	// Seconds is the time from the first connection that failed to the first one that succeeded.
	Seconds float64 `json:"seconds"`
	Failed  int     `json:"failed"`
	// Error is that of the first connection.
	Error string `json:"error"`
	// Open says that no connection succeeded until the end.
	Open bool `json:"open,omitempty"`
}

// watched is what watch saw.
type watched struct {
	Target      netip.AddrPort `json:"target"`
	From        time.Time      `json:"from"`
	Connections int            `json:"connections"`
	Failed      int            `json:"failed"`
	// NotTried are connections for which this machine had no port or no file left. Cause is why.
	NotTried int    `json:"notTried,omitempty"`
	Cause    string `json:"cause,omitempty"`
	// Seconds are the times of the connections that succeeded: the middle, that of 99 %, the longest.
	Median  float64    `json:"medianSeconds"`
	P99     float64    `json:"p99Seconds"`
	Longest float64    `json:"longestSeconds"`
	Gaps    []gap      `json:"gaps"`
	MACs    []answered `json:"macs"`
}

// patience is the time in which a connection must be there. TCP repeats a lost first packet after a second.
const patience = time.Second

// watchFrom connects until the end of ctx.
func watchFrom(ctx context.Context, target netip.AddrPort, every time.Duration) watched {
	var mu sync.Mutex
	var all []attempt
	var connecting sync.WaitGroup
	var macs []answered
	connecting.Go(func() { macs = neighbors(ctx, target.Addr()) })
	for tick := time.NewTicker(every); ctx.Err() == nil; {
		connecting.Go(func() {
			a := attempt{at: time.Now()}
			conn, err := (&net.Dialer{Timeout: patience}).Dial("tcp", target.String())
			a.took, a.err = time.Since(a.at), err
			if err == nil {
				_ = conn.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, a)
		})
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	connecting.Wait()
	w := tally(all)
	w.Target, w.MACs = target, macs
	return w
}

// tally makes the numbers of all attempts.
func tally(all []attempt) watched {
	slices.SortFunc(all, func(a, b attempt) int { return a.at.Compare(b.at) })
	var w watched
	var took []time.Duration
	var now *gap
	for _, a := range all {
		if w.From.IsZero() {
			w.From = a.at
		}
		if exhausted(a.err) { // this says nothing about the address
			w.NotTried, w.Cause = w.NotTried+1, oneLine(a.err)
			continue
		}
		w.Connections++
		switch {
		case a.err != nil:
			w.Failed++
			if now == nil {
				w.Gaps = append(w.Gaps, gap{From: a.at, Error: reason(a.err), Open: true})
				now = &w.Gaps[len(w.Gaps)-1]
			}
			now.Failed++
			now.Seconds = a.at.Sub(now.From).Seconds()
		case now != nil:
			now.Seconds, now.Open = a.at.Sub(now.From).Seconds(), false
			now = nil
			fallthrough
		default:
			took = append(took, a.took)
		}
	}
	if len(took) > 0 {
		slices.Sort(took)
		w.Median, w.P99, w.Longest = took[len(took)/2].Seconds(), took[len(took)*99/100].Seconds(), took[len(took)-1].Seconds()
	}
	return w
}

// exhausted reports whether err is about this machine: a port is in use for a minute after its connection.
func exhausted(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{syscall.EADDRNOTAVAIL, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM},
		func(of syscall.Errno) bool { return errors.Is(err, of) })
}

// reason returns the cause of a failed connection in a word or two.
func reason(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "unreachable"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer"
	}
	return oneLine(err)
}

// neighbors returns the MAC addresses that the kernel has for an address until the end of ctx. It returns
// none for an address that is not on the segment, and on systems other than Linux.
func neighbors(ctx context.Context, address netip.Addr) []answered {
	const allFamilies = 0 // netlink.FAMILY_ALL, which other systems than Linux lack
	var all []answered
	address = address.Unmap().WithZone("") // the kernel's list has no zones
	for tick := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; {
		known, err := netlink.NeighList(0, allFamilies)
		if errors.Is(err, netlink.ErrNotImplemented) {
			return nil
		}
		for _, n := range known {
			mac := n.HardwareAddr.String()
			if ip, _ := netip.AddrFromSlice(n.IP); ip.Unmap() == address && mac != "" && (len(all) == 0 || all[len(all)-1].MAC != mac) {
				all = append(all, answered{time.Now(), mac})
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return all
}

// Tables shows w.
func (w watched) Tables() []explain.Table {
	about := explain.Table{Lines: []string{fmt.Sprintf("%d connections to %v from %s on, %d failed", w.Connections, w.Target, clockTime(w.From), w.Failed)}}
	if w.Failed < w.Connections {
		about.Lines = append(about.Lines, fmt.Sprintf("the others took %s, 99 %% of them at most %s, the longest %s", inMilliseconds(w.Median), inMilliseconds(w.P99), inMilliseconds(w.Longest)))
	}
	if w.NotTried > 0 {
		about.Lines = append(about.Lines, fmt.Sprintf("%d connections were not tried, because this machine had no port or file left (%s): use a longer --every", w.NotTried, w.Cause))
	}
	tables := []explain.Table{about}
	gaps := explain.Table{Title: "Gaps", Head: []string{"FROM", "LASTED", "FAILED", "FIRST ERROR"}}
	for _, g := range w.Gaps {
		lasted := inMilliseconds(g.Seconds)
		if g.Open {
			lasted += ", to the end"
		}
		gaps.Rows = append(gaps.Rows, []string{clockTime(g.From), lasted, fmt.Sprint(g.Failed), g.Error})
	}
	if len(gaps.Rows) > 0 {
		tables = append(tables, gaps)
	}
	macs := explain.Table{Title: "Answered by", Head: []string{"FROM", "MAC"}}
	for _, m := range w.MACs {
		macs.Rows = append(macs.Rows, []string{clockTime(m.At), m.MAC})
	}
	if len(macs.Rows) > 0 {
		tables = append(tables, macs)
	}
	return tables
}

func clockTime(t time.Time) string { return t.Format("15:04:05.000") }

func inMilliseconds(seconds float64) string { return fmt.Sprintf("%.1f ms", seconds*1000) }
