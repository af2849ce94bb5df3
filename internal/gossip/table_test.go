package gossip

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/detector"
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
	bye := func(instance uint64) func(*table, time.Time) {
		return func(t *table, now time.Time) {
			t.hear(identity{"a", instance}, netip.AddrPort{}, said{leaving: true}, now)
		}
	}
	doubt := func(instance uint64) func(*table, time.Time) {
		return func(t *table, now time.Time) { t.lose(identity{"a", instance}, now.Add(time.Second), now) }
	}
	miss := func(instance uint64) func(*table, time.Time) {
		return func(t *table, now time.Time) { t.suspect(identity{"a", instance}, now.Add(time.Second), now) }
	}
	beat := func(instance uint64) func(*table, time.Time) {
		return func(t *table, now time.Time) { t.refute(identity{"a", instance}, now) }
	}
	settle := func(t *table, now time.Time) { t.settle(now) }
	hour := func(t *table, now time.Time) { t.forget(now.Add(time.Hour)) }
	acquit := func(t *table, now time.Time) { t.settle(now.Add(suspicionTTL)) }
	late := func(t *table, now time.Time) { t.settle(now.Add(2 * detector.MaxLate)) }
	forget := func(t *table, now time.Time) { t.forget(now.Add(-time.Second)) }
	for _, tt := range []struct {
		name  string
		steps []func(*table, time.Time) // one each second
		want  string
	}{
		{"nobody", nil, ""},
		{"one that is heard is alive since then", steps(hear(1), hear(1)), "a/1 alive since 0"},
		{"one that fell silent is dead since then", steps(hear(1), lose(1)), "a/1 dead since 1"},
		{"one that was never heard is not known", steps(lose(1)), ""},
		{"one that is heard again is alive", steps(hear(1), lose(1), hear(1)), "a/1 alive since 2"},
		{"the newer of two speaks for the node", steps(hear(2), hear(1)), "a/2 alive since 0"},
		{"an older one that goes changes nothing", steps(hear(1), hear(2), lose(1)), "a/2 alive since 0"},
		{"an older one that stays keeps the node alive", steps(hear(1), hear(2), lose(2)), "a/1 alive since 0"},
		{"a restart after the death is a new life", steps(hear(1), lose(1), hear(2)), "a/2 alive since 2"},
		{"the last that goes is remembered", steps(hear(1), hear(2), lose(1), lose(2)), "a/2 dead since 3"},
		{"a goodbye is no death", steps(hear(1), bye(1)), "a/1 left since 1"},
		{"a goodbye and then silence is a goodbye", steps(hear(1), bye(1), lose(1)), "a/1 left since 1"},
		{"an older one that says goodbye changes nothing", steps(hear(1), hear(2), bye(1)), "a/2 alive since 0"},
		{"a doubt is no death yet", steps(hear(1), doubt(1)), "a/1 alive since 0"},
		{"a doubt becomes one", steps(hear(1), doubt(1), settle), "a/1 dead since 2"},
		{"a doubt that was contradicted does not", steps(hear(1), doubt(1), hear(1), settle), "a/1 alive since 0"},
		{"one that we are late to believe is none yet", steps(hear(1), doubt(1), late), "a/1 alive since 0"},
		{"it can be contradicted", steps(hear(1), doubt(1), late, hear(1), settle), "a/1 alive since 0"},
		{"but is believed then, however late", steps(hear(1), doubt(1), late, settle), "a/1 dead since 3"},
		{"one that is missed is not dead yet", steps(hear(1), miss(1)), "a/1 alive since 0"},
		{"but soon", steps(hear(1), miss(1), settle), "a/1 dead since 2"},
		{"unless it beats", steps(hear(1), miss(1), beat(1), settle), "a/1 alive since 0"},
		{"that others miss it too puts nothing off", steps(hear(1), miss(1), miss(1), settle, settle), "a/1 dead since 4"},
		{"what the library still says of it is no beat", steps(hear(1), miss(1), settle, hear(1)), "a/1 dead since 2"},
		{"a beat brings it back", steps(hear(1), miss(1), settle, beat(1)), "a/1 alive since 3"},
		{"the library brings it back when nobody has missed it for long", steps(hear(1), miss(1), settle, acquit), "a/1 alive since 8"},
		{"not while somebody does", steps(hear(1), miss(1), settle, miss(1), acquit), "a/1 alive since 9"},
		{"not when the library does", steps(hear(1), miss(1), settle, lose(1), acquit), "a/1 dead since 2"},
		{"a beat does not bring back whom the library has lost", steps(hear(1), lose(1), beat(1)), "a/1 dead since 1"},
		{"nor whom it doubts", steps(hear(1), doubt(1), beat(1), settle, settle), "a/1 dead since 4"},
		{"the older of two is heard again when the newer is gone", steps(hear(1), hear(2), miss(1), settle, settle, lose(2), acquit), "a/1 alive since 11"},
		{"who is silent is not forgotten while the library has it", steps(hear(1), miss(1), settle, hour), "a/1 dead since 2"},
		{"but then", steps(hear(1), miss(1), settle, lose(1), hour), ""},
		{"one that was never heard is not missed", steps(miss(1), settle), ""},
		{"one that said goodbye is not missed", steps(bye(1), miss(1), settle), "a/1 left since 0"},
		{"the dead are remembered", steps(hear(1), lose(1), forget), "a/1 dead since 1"},
		{"but not for ever", steps(hear(1), lose(1), forget, forget), ""},
		{"the living are never forgotten", steps(hear(1), settle, settle, forget), "a/1 alive since 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := newTable()
			for i, step := range tt.steps {
				step(&table, epoch.Add(time.Duration(i)*time.Second))
			}
			if got := table.print(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if n := len(table.processes["a"]); n > 2 {
				t.Errorf("%d processes are remembered", n)
			}
		})
	}
}

func steps(s ...func(*table, time.Time)) []func(*table, time.Time) { return s }

func TestANodeThatRestartsForEverFillsNothing(t *testing.T) {
	table := newTable()
	for i := range uint64(1000) {
		table.hear(identity{"a", i}, netip.AddrPort{}, said{}, epoch)
		table.lose(identity{"a", i}, epoch, epoch)
	}
	if n := len(table.processes["a"]); n != 1 {
		t.Errorf("%d processes are remembered", n)
	}
}

func TestTheNameOfAProcessIsReadAsItIsWritten(t *testing.T) {
	want := identity{"node-a.example", 0x0123456789abcdef}
	if got, err := parseIdentity(want.String()); got != want || err != nil {
		t.Errorf("%v %v", got, err)
	}
	for _, name := range []string{"", "node-a", "#0123456789abcdef", "a#12", "a#0123456789abcdeg", "a#+123456789abcde"} {
		if id, err := parseIdentity(name); err == nil {
			t.Errorf("%q is taken for %v", name, id)
		}
	}
}
