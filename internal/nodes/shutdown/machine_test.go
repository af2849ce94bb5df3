package shutdown

import (
	"context"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

func TestSIGTERMAloneIsNoMachineShutdown(t *testing.T) {
	const term, cont = syscall.SIGTERM, syscall.SIGCONT
	type event struct {
		after  time.Duration
		signal os.Signal
	}
	for _, tt := range []struct {
		name   string
		events []event
		want   string
	}{
		{"the kubelet ends the container", []event{{0, term}}, ""},
		{"systemd stops the unit", []event{{0, term}, {time.Millisecond, cont}}, "systemd"},
		{"a busy machine delivers the signals in another order", []event{{0, cont}, {time.Millisecond, term}}, "systemd"},
		{"a process that was stopped by hand a minute ago", []event{{0, cont}, {time.Minute, term}}, ""},
		{"stopped by hand twice, and then stopped by systemd", []event{{0, cont}, {time.Minute, cont}, {time.Minute, term}, {0, cont}}, "systemd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, signals := &Machine{both: make(chan struct{})}, make(chan os.Signal)
				go m.follow(signals)
				for _, e := range tt.events {
					time.Sleep(e.after)
					select {
					case signals <- e.signal:
					case <-m.both:
					}
				}
				synctest.Wait()
				got := m.sign(t.Context())
				if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				close(signals)
			})
		})
	}
}

func TestSignalsOfSystemdAreRecognized(t *testing.T) {
	t.Cleanup(func() { signal.Reset(syscall.SIGTERM, syscall.SIGCONT) })
	m := WatchMachine(t.Context(), "")
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		expect.NoError(t, syscall.Kill(os.Getpid(), s))
	}
	eventually(t, "both signals have arrived", func() bool { return m.sign(t.Context()) != "" })
}

func TestStoppedKubeletIsAMachineShutdown(t *testing.T) {
	kubelet, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	m := &Machine{connect: dialing(kubelet.Addr().String()), both: make(chan struct{})}
	expect.Equal(t, "while the kubelet runs", m.sign(t.Context()), "")
	expect.NoError(t, kubelet.Close())
	expect.Equal(t, "after the kubelet has stopped", m.sign(t.Context()), "the kubelet has stopped")
	silent := &Machine{connect: m.connect, both: make(chan struct{})}
	expect.Equal(t, "after a kubelet that never answered", silent.sign(t.Context()), "")
	for name, m := range map[string]*Machine{"where no signs are noticed": nil, "where the kubelet is not asked": {connect: dialing(""), both: make(chan struct{})}} {
		expect.Equal(t, name, m.sign(t.Context()), "")
	}
}

func TestLongStoppedKubeletIsNoMachineShutdown(t *testing.T) {
	for _, tt := range []struct {
		name    string
		stopped time.Duration // before the end
		want    string
	}{
		{"just now", 0, "the kubelet has stopped"},
		{"some seconds ago", 5 * time.Second, "the kubelet has stopped"},
		{"a minute ago", time.Minute, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stopped atomic.Bool
				m := &Machine{both: make(chan struct{}), connect: func(context.Context) error {
					if stopped.Load() {
						return syscall.ECONNREFUSED
					}
					return nil
				}}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go m.meet(ctx)
				time.Sleep(time.Hour)
				stopped.Store(true)
				time.Sleep(tt.stopped)
				expect.Equal(t, "the result", m.sign(ctx), tt.want)
			})
		})
	}
}
