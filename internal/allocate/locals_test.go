package allocate

import (
	"testing"

	"purelb.io/purelb/internal/service"
)

// localOf changes a Service so that it shares by a key, has this selector, and has the
// policy Local.
func localOf(selector string) func(*service.Request) {
	return func(r *service.Request) { r.Selector, r.LocalPolicy, r.AllowLocal = selector, true, true }
}

func TestSharerWithOtherPodsEndsPolicyLocal(t *testing.T) {
	other := func(selector string) func(*service.Request) {
		return func(r *service.Request) { r.Selector = selector }
	}
	s := newFixture(t, group(t, "default", "192.0.2.1-192.0.2.2"))
	local := s.gets(s.wants("local", keyed("k", 80), localOf("app=web")), "192.0.2.1")
	resets := func() bool {
		d, err := s.decide(local)
		must(t, err)
		return d.ClusterPolicy
	}
	same := s.gets(s.wants("same", keyed("k", 81), other("app=web")), "192.0.2.1")
	if resets() {
		t.Error("the policy is reset although both Services have the same pods")
	}

	clear(s.woken)
	other("app=db")(&same)
	s.gets(same, "192.0.2.1")
	if !s.woken[owner(local)] || !resets() {
		t.Errorf("a sharer has other pods: woken %t, reset %t", s.woken[owner(local)], resets())
	}

	other("app=web")(&same)
	s.gets(same, "192.0.2.1")
	clear(s.woken)
	s.gets(s.wants("third", keyed("k", 82), other("app=db")), "192.0.2.1")
	if !s.woken[owner(local)] || !resets() {
		t.Errorf("a sharer with other pods joins: woken %t, reset %t", s.woken[owner(local)], resets())
	}
}
