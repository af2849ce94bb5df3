package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"purelb.io/purelb/internal/allocate/allocstate"
	"purelb.io/purelb/internal/announce/agentstate"
	"purelb.io/purelb/internal/announce/probe"
	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/testing/expect"
)

// A scene of testdata/scenes begins with "# name". Then it says what is other than in
// testdata/cluster.yaml (see set), and after each command what the answer is.

// The answers to changed worlds.
func TestScenesOfWorlds(t *testing.T) {
	scenes(t, "worlds", func(s stage) func(*testing.T, string) string { return s.answer })
}

// The answers that need no cluster. None is reachable here.
func TestScenesOfFiles(t *testing.T) {
	t.Setenv("KUBECONFIG", "testdata/none")
	scenes(t, "files", func(s stage) func(*testing.T, string) string {
		return func(t *testing.T, command string) string {
			var out, errs bytes.Buffer
			code := run(t.Context(), strings.Fields(command), strings.NewReader(s.files), &out, &errs)
			return shown(out.String(), errs.String(), code)
		}
	})
}

// The answers of a cluster, with what its programs say and what the user may not see.
func TestScenesOfPrograms(t *testing.T) {
	scenes(t, "programs", func(s stage) func(*testing.T, string) string {
		return func(t *testing.T, command string) string {
			out, errs, code := s.server(t).ask(t, strings.Fields(command)...)
			return shown(out, errs, code)
		}
	})
}

// scenes plays the scenes of a folder. asked returns what answers the commands about a stage.
func scenes(t *testing.T, folder string, asked func(stage) func(*testing.T, string) string) {
	t.Helper()
	expect.Scenes(t, filepath.Join("testdata", "scenes", folder, "*.txt"), *update, func(t *testing.T, script string) string {
		played, commands, _ := strings.Cut("\n"+script, "\n$ ")
		s := stage{world: recorded(t), facts: fine()}
		s.set(t, played)
		answer := asked(s)
		for part := range strings.SplitSeq(commands, "\n$ ") {
			command, _, _ := strings.Cut(part, "\n")
			played += "\n$ " + command + "\n" + answer(t, command)
		}
		return strings.TrimPrefix(played, "\n")
	})
}

// shown is what a command says, with "!" before what is beside the answer. Empty lines, and the
// times of Leases in status, are left out.
func shown(out, errs string, code int) string {
	var lines []string
	for part := range strings.SplitSeq(out, "\n\n") {
		if !strings.HasPrefix(part, "Election\n") && part != "" {
			lines = append(lines, strings.TrimSpace(part))
		}
	}
	for line := range strings.Lines(errs) {
		lines = append(lines, "! "+strings.TrimSpace(line))
	}
	return strings.Join(append(lines, fmt.Sprintf("exit code %d", code)), "\n")
}

// stage is a cluster that commands are asked about.
type stage struct {
	world explain.World
	facts explain.Facts
	// files are what the command reads.
	files string
	// allocator and agents are what the programs say, and probes what the agents of nodes find on the wire.
	allocator *allocstate.State
	agents    []agentstate.State
	probes    map[string]probe.Answer
	// faults are the codes that the API server answers with, and texts other answers, by the path. The path of a pod
	// begins with its name, and "/" is all paths.
	faults map[string]int
	texts  map[string]string
	// namespace is that of PureLB, if it is another than usually.
	namespace string
}

// server returns an API server with the objects of s.
func (s stage) server(t *testing.T) *fakeServer {
	t.Helper()
	f := newFakeServer(t)
	running(s.world.Pods)
	f.has(t, s.world)
	leader := leaderIn(installNamespace, time.Now())
	leader["spec"].(map[string]any)["holderIdentity"] = "allocator-1"
	f.objects[pathLeases] = append(f.objects[pathLeases], leader)
	says := func(path string, what any) {
		text, err := json.Marshal(what)
		expect.NoError(t, err)
		f.texts[path] = string(text)
	}
	if a := s.allocator; a != nil {
		a.Format, a.Leading, a.Identity, a.Leader = allocstate.Format, true, "allocator-1", "allocator-1"
		says(statePath, a)
	}
	for _, a := range s.agents {
		a.Format = agentstate.Format
		says(agentPath(a.Node), a)
	}
	f.texts[pathTokens] = `{"status": {"token": "good"}}`
	for node, a := range s.probes {
		says(strings.TrimSuffix(agentPath(node), "/state")+"/probe", a)
	}
	path := func(name string) string {
		if strings.HasPrefix(name, "/") {
			return name
		}
		return pathPods + "/http:" + name
	}
	for name, text := range s.texts {
		f.texts[path(name)] = text
	}
	for name, code := range s.faults {
		f.faults[path(name)] = code
		if _, says := s.texts[name]; !says {
			delete(f.texts, path(name))
		}
	}
	f.all = s.faults["/"]
	if s.namespace != "" {
		moved := map[string][]map[string]any{}
		for path, all := range f.objects {
			text, err := json.Marshal(all)
			expect.NoError(t, err)
			var list []map[string]any
			remade(t, json.RawMessage(strings.ReplaceAll(string(text), installNamespace, s.namespace)), &list)
			moved[strings.Replace(path, installNamespace, s.namespace, 1)] = list
		}
		f.objects = moved
	}
	return f
}

// answer returns what a command says of s: the first line of an explanation with the kinds that it
// does not know, and of other commands the problems that they find.
func (s stage) answer(t *testing.T, command string) string {
	t.Helper()
	said := func(text string, problem bool, err error) string {
		switch {
		case err != nil:
			return "error: " + err.Error()
		case problem:
			return "problem: " + text
		}
		return text
	}
	w := s.world
	what, name, _ := strings.Cut(strings.TrimPrefix(command, "explain "), " ")
	for _, one := range explainables {
		if one.kind == what {
			story, err := one.story(w, name)
			text := said(story.Summary, story.Problem, err)
			for _, u := range story.Unread {
				text += "\nunknown: " + u.Kind
			}
			return text
		}
	}
	switch what {
	case "pools":
		_, err := explain.PoolsOf(w, explain.Filter{})
		return said("pools", false, err)
	case "services":
		_, err := explain.ServicesOf(w, explain.Filter{})
		return said("services", false, err)
	case "election":
		_, err := explain.ElectionOf(w, "", strings.TrimPrefix(name, "--simulate-drain "))
		return said("election", false, err)
	case "inspect":
		s, err := explain.Inspect(w, name)
		if err != nil {
			return said("", false, err)
		}
		return said(s.Diagnosis.Reason, s.Problem, nil)
	case "version":
		return fmt.Sprintf("consistent: %t", *explain.Versions(w, "").Consistent)
	case "status":
		status := explain.StatusOf(w)
		return strings.Join(append([]string{status.Overall}, status.Warnings...), "\n")
	case "check":
		return found(explain.CheckUp(w, s.facts, false))
	case "validate":
		var text strings.Builder
		expect.NoError(t, printTables(&text, explain.Against(w, filed(t, s.files, "-")).Tables()))
		return strings.TrimSuffix(text.String(), "\n")
	}
	t.Fatalf("no scene can have the command %s", command)
	return ""
}

// found lists the first line of c, the findings that are not fine, and whether waiting may help.
func found(c explain.Checkup) string {
	lines := []string{c.Tables()[0].Lines[0]}
	for _, f := range c.Findings {
		if f.Status != explain.FindingFine {
			lines = append(lines, f.Status+" "+f.Check+": "+f.Message)
		}
	}
	if c.Again() {
		lines = append(lines, "asked again with --wait")
	}
	return strings.Join(lines, "\n")
}

// Each check has a scene that breaks it, and a section of the manual.
func TestEachCheckFindsItsFault(t *testing.T) {
	const scenes, manual = "testdata/scenes/worlds/check.txt", "../../docs/kubectl-purelb.md"
	text := texts(t, scenes, manual)
	for _, f := range explain.CheckUp(wellWorld(t), fine(), false).Findings {
		if !strings.Contains(text[scenes], " "+f.Check+": ") {
			t.Errorf("nothing breaks the check %s", f.Check)
		}
		if !strings.Contains(text[manual], "\n### check "+f.Check+"\n") {
			t.Errorf("the manual has no section on the check %s", f.Check)
		}
	}
}

// What is not known is not fine, and is no warning either.
func TestOverallIsUnknownWithoutARight(t *testing.T) {
	if s := explain.StatusOf(wellWorld(t)); s.Overall != explain.OverallOK {
		t.Fatalf("with all rights it is %s: %q", s.Overall, s.Warnings)
	}
	for _, kind := range []string{explain.KindServices, explain.KindGroups, explain.KindAgents, explain.KindLeases, explain.KindNodes,
		explain.KindNetworks, explain.KindPods, explain.KindNodeStatuses} {
		for _, reason := range []string{explain.Forbidden, explain.Failed} {
			s := explain.StatusOf(with(t, wellWorld(t), "unread: {"+kind+": "+reason+"}"))
			if s.Overall != explain.OverallUnknown || len(s.Warnings) > 0 {
				t.Errorf("%s %s: it is %s: %q", kind, reason, s.Overall, s.Warnings)
			}
		}
	}
}
