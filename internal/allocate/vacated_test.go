package allocate

import (
	"testing"
	"testing/synctest"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/service"
)

// A tool changes ipFamilyPolicy again and again, and other Services come in between.
func TestFlippedFamilyKeepsItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both, four := families(service.All, addr.V4, addr.V6), families(service.All, addr.V4)
		s := newFixture(t, group(t, "default", "192.0.2.0-192.0.2.9", "2001:db8::100-2001:db8::103"))
		flipped := s.gets(s.wants("flipped", both), "192.0.2.0 2001:db8::100")
		for _, other := range []string{"192.0.2.1 2001:db8::101", "192.0.2.2 2001:db8::102"} {
			four(&flipped)
			flipped = s.gets(flipped, "192.0.2.0")
			s.gets(s.wants("beside "+other, both), other)
			both(&flipped)
			flipped = s.gets(flipped, "192.0.2.0 2001:db8::100")
		}
		four(&flipped)
		flipped = s.gets(flipped, "192.0.2.0")
		s.gets(s.wants("asks", both, asking("2001:db8::103")), "192.0.2.3 2001:db8::103")
		s.gets(s.wants("last", both), "192.0.2.4 2001:db8::100") // the pool has no other address

		s = newFixture(t, group(t, "default", "192.0.2.0-192.0.2.9", "2001:db8::100-2001:db8::103"))
		flipped = s.gets(s.wants("flipped", both), "192.0.2.0 2001:db8::100")
		four(&flipped)
		s.gets(flipped, "192.0.2.0")
		time.Sleep(10 * time.Minute)
		s.gets(s.wants("later", both), "192.0.2.1 2001:db8::100")
	})
}
