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
		one := fmt.Sprintf("%s/%d %s since %d", m.Node, m.Instance, m.State, m.Since.Unix()-epoch.Unix())
		if !m.Lost.IsZero() {
			one += fmt.Sprintf(", lost %d", m.Lost.Unix()-epoch.Unix())
		}
		all = append(all, one)
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
	suspectByLibrary := func(instance uint64) func(*table, time.Time) {
		return func(t *table, now time.Time) { t.lose(identity{"a", instance}, now.Add(time.Second), now) }
	}
	suspect := func(instance uint64) func(*table, time.Time) {
		return func(t *table, now time.Time) { t.suspect(identity{"a", instance}, now.Add(time.Second), now) }
	}
	heartbeat := func(instance uint64) func(*table, time.Time) {
		return func(t *table, now time.Time) { t.refute(identity{"a", instance}, now) }
	}
	settle := func(t *table, now time.Time) { t.settle(now) }
	hour := func(t *table, now time.Time) { t.forget(now.Add(time.Hour)) }
	afterTTL := func(t *table, now time.Time) { t.settle(now.Add(suspicionTTL)) }
	late := func(t *table, now time.Time) { t.settle(now.Add(2 * maxLate)) }
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
		{"a process that is heard again is alive", steps(hear(1), lose(1), hear(1)), "a/1 alive since 2, lost 1"},
		{"the newer of two processes represents the node", steps(hear(2), hear(1)), "a/2 alive since 0"},
		{"the loss of an older process changes nothing", steps(hear(1), hear(2), lose(1)), "a/2 alive since 0"},
		{"an older process keeps the node alive", steps(hear(1), hear(2), lose(2)), "a/1 alive since 0"},
		{"a restart after the death is a new process", steps(hear(1), lose(1), hear(2)), "a/2 alive since 2, lost 1"},
		{"the last lost process is remembered", steps(hear(1), hear(2), lose(1), lose(2)), "a/2 dead since 3"},
		{"a process that leaves after it came back has left", steps(hear(1), lose(1), hear(1), leave(1)), "a/1 left since 3"},
		{"a process that is back and lost again is dead", steps(hear(1), lose(1), hear(1), lose(1)), "a/1 dead since 3"},
		{"a process that leaves is not dead", steps(hear(1), leave(1)), "a/1 left since 1"},
		{"a process that leaves and is lost has left", steps(hear(1), leave(1), lose(1)), "a/1 left since 1"},
		{"an older process that leaves changes nothing", steps(hear(1), hear(2), leave(1)), "a/2 alive since 0"},
		{"a process that the library suspects is alive", steps(hear(1), suspectByLibrary(1)), "a/1 alive since 0"},
		{"a suspicion of the library becomes a death", steps(hear(1), suspectByLibrary(1), settle), "a/1 dead since 2"},
		{"a refuted suspicion does not become a death", steps(hear(1), suspectByLibrary(1), hear(1), settle), "a/1 alive since 0"},
		{"a late timer does not end a suspicion at once", steps(hear(1), suspectByLibrary(1), late), "a/1 alive since 0"},
		{"after a late timer, a suspicion can be refuted", steps(hear(1), suspectByLibrary(1), late, hear(1), settle), "a/1 alive since 0"},
		{"the next timer ends the suspicion", steps(hear(1), suspectByLibrary(1), late, settle), "a/1 dead since 3"},
		{"a process without heartbeats is not dead at once", steps(hear(1), suspect(1)), "a/1 alive since 0"},
		{"a process without heartbeats is dead a second later", steps(hear(1), suspect(1), settle), "a/1 dead since 2"},
		{"a heartbeat refutes the suspicion", steps(hear(1), suspect(1), heartbeat(1), settle), "a/1 alive since 0"},
		{"a second suspicion does not delay the death", steps(hear(1), suspect(1), suspect(1), settle, settle), "a/1 dead since 4"},
		{"the library does not revive a process without heartbeats", steps(hear(1), suspect(1), settle, hear(1)), "a/1 dead since 2"},
		{"a heartbeat revives a process", steps(hear(1), suspect(1), settle, heartbeat(1)), "a/1 alive since 3, lost 2"},
		{"the library revives a process that has not been suspected for long", steps(hear(1), suspect(1), settle, afterTTL), "a/1 alive since 8, lost 2"},
		{"a new suspicion delays the revival by the library", steps(hear(1), suspect(1), settle, suspect(1), afterTTL), "a/1 alive since 9, lost 2"},
		{"the library does not revive a process that it lost", steps(hear(1), suspect(1), settle, lose(1), afterTTL), "a/1 dead since 2"},
		{"a heartbeat does not revive a process that the library lost", steps(hear(1), lose(1), heartbeat(1)), "a/1 dead since 1"},
		{"the library does not refute a suspicion of the watchers", steps(hear(1), suspect(1), hear(1), settle, settle), "a/1 dead since 4"},
		{"a suspicion of both counts from the first, and a heartbeat does not refute it", steps(hear(1), suspect(1), suspectByLibrary(1), heartbeat(1), settle, settle), "a/1 dead since 5"},
		{"a heartbeat does not refute a suspicion of the library", steps(hear(1), suspectByLibrary(1), heartbeat(1), settle, settle), "a/1 dead since 4"},
		{"the older of two processes is revived when the newer is lost", steps(hear(1), hear(2), suspect(1), settle, settle, lose(2), afterTTL), "a/1 alive since 11, lost 5"},
		{"a silent process is remembered while the library has it", steps(hear(1), suspect(1), settle, hour), "a/1 dead since 2"},
		{"a silent process is forgotten after the library lost it", steps(hear(1), suspect(1), settle, lose(1), hour), ""},
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
