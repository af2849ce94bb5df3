// Package worlds runs scenes in variations of the lab, and writes the table of docs/compatibility.md.
package worlds

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"purelb.io/purelb/lab/internal/build"
	"purelb.io/purelb/lab/internal/scenes"
	"purelb.io/purelb/lab/internal/topology"
)

// page is the page with the table, from the folder of the lab.
const page = "../docs/compatibility.md"

// scene is an end-to-end test that has to pass in every world, or only in one.
type scene struct{ promise, test, only string }

var shown = []scene{
	{"a client outside reaches a local address of each family", "TestALocalServiceIsReachedByIPv4AndIPv6", ""},
	{"a client outside reaches a remote address of each family through every node", "TestARemoteServiceIsReachedByIPv4AndIPv6ThroughEveryNode", ""},
	{"`externalTrafficPolicy: Local`: the nodes with endpoints have a remote address", "TestExternalTrafficPolicyLocalNarrowsAndFollowsEndpoints", ""},
	{"an agent is killed: nothing is lost", "TestAnAgentThatIsKilledLosesNothing", ""},
	{"all agents are replaced: nothing is lost", "TestARolloutOfTheAgentsLosesNothing", ""},
	{"a node is drained by its label: the address moves", "TestADrainMovesAddressesWithoutAGap", ""},
	{"a network card goes down: the address moves", "TestANetworkCardThatGoesDownHandsOver", ""},
	{"a node loses its power while the API server hangs: the address moves", "TestFailoverTakesASecondWithoutTheAPIServer", ""},
	{"a kubelet takes the address of a Service for that of its node: an event names it", "TestAServiceAddressThatAKubeletTakesForItsNodeIsNamed", "no-node-ip"},
	{"the leader of the allocators is killed while Services come and go: no address is lost or doubled",
		"TestASecondAllocatorTakesOver", "two-allocators"},
}

// in reports whether the scene is for a world. In a world whose kubelets take the addresses of Services for
// those of their nodes, the API server does not reach all kubelets.
func (s scene) in(w topology.World) bool { return s.only == w.Name || s.only == "" && !w.NoNodeIP }

// results are the words of the table, by the name of the world and the promise of the scene.
type results map[string]map[string]string

// The words of the table.
const (
	passes  = "passes"
	fails   = "**fails**"
	notRun  = "not run"
	nothing = "-"
)

// set notes which tests passed in a world.
func (r results) set(w topology.World, passed []string) {
	words := map[string]string{}
	for _, s := range shown {
		words[s.promise] = fails
		if slices.Contains(passed, s.test) {
			words[s.promise] = passes
		}
	}
	r[w.Name] = words
}

// word returns the word of the table for a scene in a world.
func (r results) word(s scene, w topology.World) string {
	if !s.in(w) {
		return nothing
	}
	return cmp.Or(r[w.Name][s.promise], notRun)
}

// previous reads the results of earlier runs from the page.
func previous(text string) results {
	all := results{}
	_, text, _ = strings.Cut(text, begin)
	text, _, _ = strings.Cut(text, end)
	var worlds []string
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		switch {
		case cells[0] == firstCell:
			worlds = cells[1:]
		case len(cells) == len(worlds)+1:
			for i, w := range worlds {
				if all[w] == nil {
					all[w] = map[string]string{}
				}
				all[w][cells[0]] = cells[i+1]
			}
		}
	}
	return all
}

// Run runs the scenes in the worlds of these names, or in all worlds, and renews their columns of the
// table. It replaces a running lab, and leaves the last world running. An error says that a scene failed.
func Run(ctx context.Context, out io.Writer, names []string) error {
	worlds, err := choose(names)
	if err != nil {
		return err
	}
	source, err := build.Source()
	if err != nil {
		return err
	}
	file := filepath.Join(source, page)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	all := previous(string(text))
	var errs []error
	for _, w := range worlds {
		fmt.Fprintf(out, "\n== the world %s: %s\n", w.Name, w.About)
		passed, err := try(ctx, out, source, w)
		if err != nil {
			errs = append(errs, fmt.Errorf("world %s: %w", w.Name, err))
		}
		all.set(w, passed)
	}
	return errors.Join(append(errs, write(file, all))...)
}

// choose returns the worlds of these names, or all worlds.
func choose(names []string) (worlds []topology.World, err error) {
	if len(names) == 0 {
		return topology.Worlds, nil
	}
	for _, name := range names {
		w, err := topology.FindWorld(name)
		if err != nil {
			return nil, err
		}
		worlds = append(worlds, w)
	}
	return worlds, nil
}

// try builds a world and runs the scenes in it. It returns the tests that passed.
func try(ctx context.Context, out io.Writer, source string, w topology.World) (passed []string, err error) {
	var tests []string
	for _, s := range shown {
		if s.in(w) {
			tests = append(tests, s.test)
		}
	}
	list, err := scenes.Named(tests)
	if err != nil {
		return nil, err
	}
	runner := &scenes.Runner{Source: source, Labs: 1, World: w.Name, Force: true, Out: out}
	return runner.Run(ctx, list)
}

// The lines of the page that enclose what this program writes.
const (
	begin = "<!-- worlds: written by make e2e-worlds -->\n"
	end   = "<!-- end of worlds -->\n"
)

// firstCell begins the table of results.
const firstCell = "What happens"

// write puts the table into the page.
func write(file string, all results) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(text, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !ok || !closed {
		return fmt.Errorf("%s: no lines %q and %q", file, begin, end)
	}
	return os.WriteFile(file, slices.Concat(before, []byte(begin), []byte(table(all)), []byte(end), after), 0o644)
}

// table returns the worlds and what passed in each of them.
func table(all results) string {
	var b strings.Builder
	b.WriteString("| World | What is different |\n|---|---|\n")
	for _, w := range topology.Worlds {
		fmt.Fprintf(&b, "| %s | %s |\n", w.Name, w.About)
	}
	b.WriteString("\n| " + firstCell + " |")
	rule := "|---|"
	for _, w := range topology.Worlds {
		fmt.Fprintf(&b, " %s |", w.Name)
		rule += "---|"
	}
	b.WriteString("\n" + rule + "\n")
	for _, s := range shown {
		fmt.Fprintf(&b, "| %s |", s.promise)
		for _, w := range topology.Worlds {
			fmt.Fprintf(&b, " %s |", all.word(s, w))
		}
		b.WriteString("\n")
	}
	return b.String()
}
