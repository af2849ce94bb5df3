package allocate

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fight simulates another controller that changes a status back right after each write. It returns
// the allocator's writes.
func fight(c *contest, from time.Time, lasts time.Duration) (writes int, at []time.Duration) {
	for now := from; now.Sub(from) < lasts; {
		t := c.turn(1, now)
		if t.wait > 0 {
			now = now.Add(t.wait)
			continue
		}
		*c = c.after(1, now)
		writes++
		at = append(at, now.Sub(from))
		now = now.Add(time.Millisecond)
	}
	return writes, at
}

func TestAContestSlowsDown(t *testing.T) {
	tests := []struct {
		lasts time.Duration
		most  int
	}{
		{time.Second, 4},
		{time.Minute, 9}, // one of them is the first write, which restores nothing
		{time.Hour, 24},
		{24 * time.Hour, 24 + 23*12},
	}
	for _, tt := range tests {
		if n, at := fight(&contest{}, time.Unix(0, 0), tt.lasts); n > tt.most {
			t.Errorf("%d writes in %s, want at most %d: %v", n, tt.lasts, tt.most, at)
		}
	}
}

func TestAContestEndsWhenTheStatusStays(t *testing.T) {
	c, start := &contest{}, time.Unix(0, 0)
	_, at := fight(c, start, 20*time.Second)
	last := start.Add(at[len(at)-1])
	rest := c.turn(1, last).rest
	if got := c.turn(1, last.Add(rest-time.Nanosecond)); !got.contested {
		t.Errorf("the contest ended too early: %+v", got)
	}
	if got := c.turn(1, last.Add(rest)); got != (turn{}) {
		t.Errorf("the contest continues: %+v", got)
	}
	*c = c.after(1, last.Add(rest))
	if got := c.turn(1, last.Add(rest)); got.contested || got.wait > 0 {
		t.Errorf("the next contest does not start from the beginning: %+v", got)
	}
}

func TestTheRivalIsNamed(t *testing.T) {
	entry := func(manager, subresource, fields string, at int64) metav1.ManagedFieldsEntry {
		when := metav1.Unix(at, 0)
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, Time: &when, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const ingress, conditions, spec = `{"f:status":{"f:loadBalancer":{"f:ingress":{}}}}`, `{"f:status":{"f:conditions":{}}}`, `{"f:spec":{}}`
	tests := []struct {
		name   string
		fields []metav1.ManagedFieldsEntry
		want   string
	}{
		{"none", nil, ""},
		{"only PureLB", []metav1.ManagedFieldsEntry{entry(component, "status", ingress, 9), entry("allocator", "status", ingress, 8)}, ""},
		{"the writer of the ingress", []metav1.ManagedFieldsEntry{entry("kubectl", "", spec, 9), entry("kcm", "status", conditions, 8), entry("metallb", "status", ingress, 1)}, "metallb"},
		{"the last writer of the ingress", []metav1.ManagedFieldsEntry{entry("old", "status", ingress, 1), entry("new", "status", ingress, 2)}, "new"},
		{"the last writer of a status, after it cleared the ingress", []metav1.ManagedFieldsEntry{entry("kubectl", "", spec, 9), entry("metallb", "status", conditions, 3)}, "metallb"},
	}
	for _, tt := range tests {
		if got := rivalOf(tt.fields, statusPart); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
