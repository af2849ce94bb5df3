package linux

import (
	"errors"
	"net/netip"
	"sync"
	"testing"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/rtnetlink"
)

func TestStackServesConcurrentCallers(t *testing.T) {
	newWorld(t)
	newNeighborhood(t)
	s := newStack(t)
	a := []announce.Address{local("eth0", "192.0.2.9/24"), local("eth0", "fd00::9/64")}
	put(t, s, a...)
	settle(t, s)
	jobs := []func() error{
		func() error { _, err := s.Observe(t.Context()); return err },
		func() error { return s.Put(t.Context(), a) },
		func() error { return s.Claim(t.Context(), "eth0", netip.MustParseAddr("fd00::9")) },
		func() error { return s.Claim(t.Context(), "eth0", netip.MustParseAddr("192.0.2.9")) },
	}
	var all sync.WaitGroup
	for _, job := range jobs {
		all.Go(func() {
			for range 50 {
				if err := job(); err != nil && !errors.Is(err, rtnetlink.ErrInterrupted) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
