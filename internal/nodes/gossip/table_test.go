package gossip

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/testing/expect"
)

var epoch = time.Unix(1000, 0)

// print returns t as text, with times in seconds since epoch.
func (t *table) print() string {
	var all []string
	for _, m := range t.members() {
		all = append(all, fmt.Sprintf("%s/%d %s since %d", m.Node, m.Instance, m.State, m.Since.Unix()-epoch.Unix()))
	}
	return strings.Join(all, ", ")
}

func TestTheStateOfANodeFollowsFromItsProcesses(t *testing.T) {
	hear := func(instance uint64) func(*table, time.Time) {
		return func(t *table, now time.Time) {
			t.hear(identity{"a", instance}, netip.AddrPort{}, said{}, now)
		}
	}
	lose := func(instance uint64) func(*table, time.Time) {
		return func(t *table, now time.Time) { t.lose(identity{"a", instance}, now, now) }
	}
	leave := func(instance uint64) func(*table, time.Time) {
		return func(t *table, now time.Time) {
			t.hear(identity{"a", instance}, netip.AddrPort{}, said{leaving: true}, now)
		}
	}
	suspect := func(instance uint64) func(*table, time.Time) {
		return func(t *table, now time.Time) { t.lose(identity{"a", instance}, now.Add(time.Second), now) }
	}
	settle := func(t *table, now time.Time) { t.settle(now) }
	late := func(t *table, now time.Time) { t.settle(now.Add(2 * mostLate)) }
	forget := func(t *table, now time.Time) { t.forget(now.Add(-time.Second)) }
	for _, tt := range []struct {
		name  string
		steps []func(*table, time.Time) // one step each second
		want  string
	}{
		{"no process", nil, ""},
		{"a process that is heard is alive", steps(hear(1), hear(1)), "a/1 alive since 0"},
		{"a process that the library lost is dead", steps(hear(1), lose(1)), "a/1 dead since 1"},
		{"a process that was never heard is unknown", steps(lose(1)), ""},
		{"a process that is heard again is alive", steps(hear(1), lose(1), hear(1)), "a/1 alive since 2"},
		{"the newer of two processes represents the node", steps(hear(2), hear(1)), "a/2 alive since 0"},
		{"the loss of an older process changes nothing", steps(hear(1), hear(2), lose(1)), "a/2 alive since 0"},
		{"an older process keeps the node alive", steps(hear(1), hear(2), lose(2)), "a/1 alive since 0"},
		{"a restart after the death is a new process", steps(hear(1), lose(1), hear(2)), "a/2 alive since 2"},
		{"the last lost process is remembered", steps(hear(1), hear(2), lose(1), lose(2)), "a/2 dead since 3"},
		{"a process that leaves is not dead", steps(hear(1), leave(1)), "a/1 left since 1"},
		{"a process that leaves and is lost has left", steps(hear(1), leave(1), lose(1)), "a/1 left since 1"},
		{"an older process that leaves changes nothing", steps(hear(1), hear(2), leave(1)), "a/2 alive since 0"},
		{"a process that the library lost is alive for some time", steps(hear(1), suspect(1)), "a/1 alive since 0"},
		{"then it is dead", steps(hear(1), suspect(1), settle), "a/1 dead since 2"},
		{"unless it refuted that", steps(hear(1), suspect(1), hear(1), settle), "a/1 alive since 0"},
		{"a late timer declares no death at once", steps(hear(1), suspect(1), late), "a/1 alive since 0"},
		{"after a late timer, a process can refute", steps(hear(1), suspect(1), late, hear(1), settle), "a/1 alive since 0"},
		{"the next timer declares the death", steps(hear(1), suspect(1), late, settle), "a/1 dead since 3"},
		{"a second loss does not delay the death", steps(hear(1), suspect(1), suspect(1), settle), "a/1 dead since 3"},
		{"a process that was never heard is not suspected", steps(suspect(1), settle), ""},
		{"a process that left is not suspected", steps(leave(1), suspect(1), settle), "a/1 left since 0"},
		{"dead processes are remembered", steps(hear(1), lose(1), forget), "a/1 dead since 1"},
		{"dead processes are forgotten later", steps(hear(1), lose(1), forget, forget), ""},
		{"live processes are never forgotten", steps(hear(1), settle, settle, forget), "a/1 alive since 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := newTable()
			for i, step := range tt.steps {
				step(&table, epoch.Add(time.Duration(i)*time.Second))
			}
			expect.Equal(t, "the result", table.print(), tt.want)
			if n := len(table.processes["a"]); n > 2 {
				t.Errorf("%d processes are remembered, which is too many", n)
			}
		})
	}
}

func steps(s ...func(*table, time.Time)) []func(*table, time.Time) { return s }

func TestANodeThatRestartsForeverUsesNoMoreMemory(t *testing.T) {
	table := newTable()
	for i := range uint64(1000) {
		table.hear(identity{"a", i}, netip.AddrPort{}, said{}, epoch)
		table.lose(identity{"a", i}, epoch, epoch)
	}
	expect.Equal(t, "remembered processes", len(table.processes["a"]), 1)
}

func TestIdentityEncoding(t *testing.T) {
	want := identity{"node-a.example", 0x0123456789abcdef}
	if got, err := parseIdentity(want.String()); got != want || err != nil {
		t.Errorf("the name is read as %v, %v", got, err)
	}
	for _, name := range []string{"", "node-a", "#0123456789abcdef", "a#12", "a#0123456789abcdeg", "a#+123456789abcde"} {
		if id, err := parseIdentity(name); err == nil {
			t.Errorf("the name %q is read as %v, want an error", name, id)
		}
	}
}
