package agent

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"purelb.io/purelb/internal/announce"
)

// A network manager flushes the interface of the holder once a second. This test measures a time, so it does
// not run in parallel with others.
func TestSegmentAFlushedAddressComesBackAtOnce(t *testing.T) {
	s, have, lacks, _ := pair(t, nil)
	h, ended := s.hosts[have], make(chan struct{})
	longest := make(chan time.Duration, 1)
	go func() {
		var worst time.Duration
		last := time.Now()
		for {
			select {
			case <-ended:
				longest <- worst
				return
			case <-time.After(time.Millisecond):
			}
			all, err := h.stack.Addresses(context.WithoutCancel(t.Context()))
			if err != nil {
				continue
			}
			if slices.ContainsFunc(all, func(a announce.Address) bool { return a.Prefix.Addr() == addrOf("192.0.2.9") }) {
				last = time.Now()
			}
			worst = max(worst, time.Since(last))
		}
	}()
	number := map[string]int{"a": 1, "b": 2, "c": 3}[have]
	for range 5 {
		h.ip("addr flush dev eth0 scope global\nroute flush dev eth0")
		time.Sleep(300 * time.Millisecond)
		h.ip(fmt.Sprintf(`addr add 192.0.2.%[1]d/24 dev eth0
			addr add 2001:db8::%[1]d/64 dev eth0 nodad
			route add default via 192.0.2.254`, number))
		time.Sleep(700 * time.Millisecond)
		if got := s.holders("192.0.2.9"); got != have {
			t.Errorf("the address is on %q, want it on %s and not on %s", got, have, lacks)
		}
	}
	close(ended)
	worst := <-longest
	t.Logf("the address was away for %s at most", worst)
	if worst > 200*time.Millisecond { // 50 ms on an idle machine
		t.Errorf("the address was away for %s", worst)
	}
	s.expect("after the last flush", have)
}
