package gossip

import (
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

func lone(t *testing.T, node string, received *[]string) *Gossip {
	t.Helper()
	g, err := New(Options{
		Changed: make(chan struct{}, 1),
		Node:    node, Bind: netip.MustParseAddrPort("127.0.0.1:7934"), Keys: [][]byte{testKey}, Log: slog.New(slog.DiscardHandler),
		Receive: func(from string, message []byte) { *received = append(*received, from+": "+string(message)) },
	})
	expect.NoError(t, err)
	return g
}

func TestOnlyTheReceiverGetsAMessageAndOnlyOnce(t *testing.T) {
	var got []string
	a, b := lone(t, "a", nil), lone(t, "b", &got)
	first, second := a.envelope(b.self.instance, []byte("one")), a.envelope(b.self.instance, []byte("two"))
	for _, envelope := range [][]byte{
		second, first, first, second,
		a.envelope(b.self.instance+1, []byte("for an earlier process")),
		nil, first[:10], first[:messageHeader+1], append([]byte{9}, first[1:]...),
	} {
		b.receive(envelope)
	}
	if len(got) != 2 || got[0] != "a: two" || got[1] != "a: one" {
		t.Errorf("the receiver got %q, want each message once", got)
	}
	if h := b.Health(); h.StaleMessages.Load() != 3 || h.BadFormat.Load() != 3 || h.BadVersion.Load() != 1 {
		t.Errorf("the counters are %+v", h)
	}
}

func TestMessagesFromAPauseAreDropped(t *testing.T) {
	for name, first := range map[string]bool{"the message is read before all packets": true, "the message is read after a packet": false} {
		synctest.Test(t, func(t *testing.T) {
			var got []string
			a, b := lone(t, "a", nil), lone(t, "b", &got)
			send := func() { b.receive(a.envelope(b.self.instance, []byte(fmt.Sprint(len(got))))) }
			run := func() {
				for range 20 {
					b.running(time.Now())
					time.Sleep(100 * time.Millisecond)
				}
			}
			run()
			send()
			time.Sleep(10 * time.Second)
			if !first {
				b.running(time.Now())
				time.Sleep(100 * time.Millisecond)
			}
			send()
			if len(got) != 1 || b.Health().StaleMessages.Load() != 1 {
				t.Errorf("%s: after the pause, the agent received %q, want nothing", name, got)
			}
			run()
			send()
			expect.Equal(t, name+": messages later", len(got), 2)
		})
	}
}

func FuzzReceive(f *testing.F) {
	var got []string
	g := lone(&testing.T{}, "a", &got)
	f.Add(g.envelope(g.self.instance, []byte("message")))
	f.Fuzz(func(_ *testing.T, envelope []byte) { g.receive(envelope) })
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	good := Options{Node: "a", Bind: netip.MustParseAddrPort("192.0.2.1:7934"), Keys: [][]byte{testKey}, Log: slog.New(slog.DiscardHandler)}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"no node":         func(o *Options) { o.Node = "" },
		"no address":      func(o *Options) { o.Bind = netip.AddrPort{} },
		"every address":   func(o *Options) { o.Bind = netip.MustParseAddrPort("[::]:7934") },
		"no port":         func(o *Options) { o.Bind = netip.MustParseAddrPort("192.0.2.1:0") },
		"no key":          func(o *Options) { o.Keys = nil },
		"a key too short": func(o *Options) { o.Keys = [][]byte{testKey[:15]} },
		"no log":          func(o *Options) { o.Log = nil },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
