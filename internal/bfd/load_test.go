package bfd

import (
	"fmt"
	"net/netip"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/bgptest"
)

// BenchmarkDetection measures the time to detect a cut, and how often a session goes down in ten
// seconds without a cut. Meanwhile this process or other processes keep the CPUs busy.
func BenchmarkDetection(b *testing.B) {
	for _, bb := range []struct {
		name  string
		every time.Duration
		load  func(b *testing.B)
	}{
		{"300ms/idle", 300 * time.Millisecond, func(*testing.B) {}},
		{"300ms/process", 300 * time.Millisecond, busyProcess},
		{"100ms/idle", 100 * time.Millisecond, func(*testing.B) {}},
		{"100ms/process", 100 * time.Millisecond, busyProcess},
		{"100ms/machine", 100 * time.Millisecond, busyMachine},
		{"100ms/both", 100 * time.Millisecond, func(b *testing.B) { busyProcess(b); busyMachine(b) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			l := newLab(b, onePeer)
			l.configure("detect-multiplier 3\nreceive-interval " + milliseconds(bb.every) + "\ntransmit-interval " + milliseconds(bb.every))
			set(b, l.engine, to("192.0.2.2", bb.every, 3))
			await(b, l.engine, "192.0.2.2", Up)
			bb.load(b)
			time.Sleep(10 * time.Second)
			var here, there float64
			for len(l.engine.Events()) > 0 {
				switch ev := <-l.engine.Events(); {
				case ev.From != Up:
				case ev.Diagnostic == timeExpired:
					here++
				default:
					there++
				}
			}
			b.ReportMetric(here, "flaps-here")
			b.ReportMetric(there, "flaps-there")
			var took []time.Duration
			for range 8 {
				await(b, l.engine, "192.0.2.2", Up)
				time.Sleep(bb.every * 5)
				for len(l.engine.Events()) > 0 {
					<-l.engine.Events()
				}
				l.port.Cut()
				at := time.Now()
				took = append(took, nextEvent(b, l.engine, func(e Event) bool { return e.Failed() }).At.Sub(at))
				l.port.Mend()
			}
			slices.Sort(took)
			b.ReportMetric(took[0].Seconds()*1000, "least-ms")
			b.ReportMetric(took[len(took)/2].Seconds()*1000, "median-ms")
			b.ReportMetric(took[len(took)-1].Seconds()*1000, "most-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func milliseconds(d time.Duration) string { return d.Round(time.Millisecond).String()[:3] }

// busyProcess runs goroutines that produce garbage, like a process that computes many
// routes.
func busyProcess(b *testing.B) {
	stop := make(chan struct{})
	b.Cleanup(func() { close(stop) })
	for range 2 * runtime.NumCPU() {
		go func() {
			keep := make([][]byte, 1024)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				for j := range 1000 {
					keep[(i+j)%len(keep)] = make([]byte, 1024)
				}
			}
		}()
	}
}

// busyMachine runs other processes that use the CPUs.
func busyMachine(b *testing.B) {
	for range 2 * runtime.NumCPU() {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
}

// BenchmarkTwoHundredSessions measures the CPU time of 200 sessions.
func BenchmarkTwoHundredSessions(b *testing.B) {
	config := "bfd\n"
	var sessions []Session
	var here, there strings.Builder
	for i := range 200 {
		s := to(fmt.Sprintf("198.18.0.%d", i+1), 300*time.Millisecond, 3)
		s.Local = netip.MustParseAddr(fmt.Sprintf("198.18.1.%d", i+1))
		sessions = append(sessions, s)
		config += fmt.Sprintf(" peer %v local-address %v interface eth0\n  receive-interval 300\n  transmit-interval 300\n exit\n", s.Local, s.Peer)
		fmt.Fprintf(&here, "address add %v/15 dev eth0\n", s.Local)
		fmt.Fprintf(&there, "address add %v/15 dev eth0\n", s.Peer)
	}
	l := &lab{t: b, wire: bgptest.NewSegment(b), space: bgptest.NewNamespace(b)}
	l.wire.Join(bgptest.Here(b), "eth0")
	l.wire.Join(l.space, "eth0")
	bgptest.Here(b).IP(here.String())
	l.space.IP(there.String())
	l.router = bgptest.FRR(b, l.space, config)
	l.engine = newEngine(b)
	set(b, l.engine, sessions...)
	for _, s := range sessions {
		await(b, l.engine, s.Peer.String(), Up)
	}
	downs := func() (n uint64) {
		for _, s := range l.engine.Status() {
			n += s.Downs
		}
		return n
	}
	began, before := downs(), cpu(b)
	const long = 10 * time.Second
	time.Sleep(long)
	b.ReportMetric(100*(cpu(b)-before).Seconds()/long.Seconds(), "cpu-%")
	b.ReportMetric(float64(downs()-began), "flaps")
	b.ReportMetric(0, "ns/op")
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
