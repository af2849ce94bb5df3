package worlds

import (
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/lab/internal/scenes"
	"purelb.io/purelb/lab/internal/topology"
)

// Without this test, a renamed test would count as failed only when the table is written.
func TestTheTableShowsScenes(t *testing.T) {
	for _, s := range shown {
		if _, err := scenes.Named([]string{s.test}); err != nil {
			t.Error(err)
		}
	}
}

func TestWorldsAreChosenByName(t *testing.T) {
	if all, err := choose(nil); err != nil || len(all) != len(topology.Worlds) {
		t.Errorf("without a name, the worlds are %v, %v; want all", all, err)
	}
	if one, err := choose([]string{"iptables"}); err != nil || len(one) != 1 || one[0].Name != "iptables" {
		t.Errorf("by the name iptables, the worlds are %v, %v", one, err)
	}
	if _, err := choose([]string{"moon"}); err == nil {
		t.Error("an unknown name is accepted")
	}
}

func TestOnlyPassedTestsPassInTheTable(t *testing.T) {
	all := results{}
	w, _ := topology.FindWorld("iptables")
	all.set(w, []string{shown[0].test})
	text := table(all)
	if got := strings.Count(text, "| passes |"); got != 1 {
		t.Errorf("%d cells of the table pass, want 1:\n%s", got, text)
	}
	others := slices.DeleteFunc(slices.Clone(shown[1:]), func(s scene) bool { return !s.in(w) })
	if fails, other := strings.Count(text, "| **fails** "), len(others); fails != other {
		t.Errorf("%d cells of the table fail, want %d:\n%s", fails, other, text)
	}
}

func TestARunOfOneWorldKeepsOtherResults(t *testing.T) {
	all := results{}
	for _, w := range topology.Worlds {
		all.set(w, []string{shown[0].test})
	}
	again := previous("Text\n" + begin + table(all) + end)
	if got, want := table(again), table(all); got != want {
		t.Errorf("the table was read as\n%s\nwant\n%s", got, want)
	}
	again.set(topology.Worlds[1], nil)
	others := slices.DeleteFunc(slices.Clone(topology.Worlds[2:]), func(w topology.World) bool { return !shown[0].in(w) })
	if got := strings.Count(table(again), "| passes "); got != 1+len(others) {
		t.Errorf("after one world failed, %d worlds pass, want all others:\n%s", got, table(again))
	}
}
