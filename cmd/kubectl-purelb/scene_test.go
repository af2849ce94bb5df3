package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"purelb.io/purelb/internal/explain"
)

// The answers to changed worlds. A scene of testdata/scenes begins with "# name". Then it says what
// is other than in testdata/cluster.yaml (see with), and after each command what the answer is.
func TestScenes(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "scenes", "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var played []string
			for scene := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
				played = append(played, play(t, scene))
			}
			golden(t, path, strings.Join(played, "\n"))
		})
	}
}

// play returns the scene with the answers that the commands in it get.
func play(t *testing.T, scene string) string {
	t.Helper()
	setting, commands, _ := strings.Cut(scene, "\n$ ")
	s := stage{world: recorded(t), facts: fine()}
	s.set(t, setting)
	played := setting + "\n"
	for part := range strings.SplitSeq(commands, "\n$ ") {
		command, _, _ := strings.Cut(part, "\n")
		answer := s.answer(t, command)
		if strings.Contains(answer, "\n\n") {
			t.Errorf("the answer to %s is more than one part:\n%s", command, answer)
		}
		played += "$ " + command + "\n" + answer + "\n"
	}
	return played
}

// stage is a cluster that commands are asked about.
type stage struct {
	world explain.World
	facts explain.Facts
	// files are what "validate --against-cluster" reads.
	files string
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
		_, err := explain.PoolsOf(w, "", false)
		return said("pools", false, err)
	case "services":
		_, err := explain.ServicesOf(w, explain.Filter{})
		return said("services", false, err)
	case "election":
		_, err := explain.ElectionOf(w, "", strings.TrimPrefix(name, "--simulate-drain "))
		return said("election", false, err)
	case "inspect":
		i, problem, err := explain.Inspect(w, name)
		return said(i.Diagnosis.Reason, problem, err)
	case "version":
		return fmt.Sprintf("consistent: %t", *explain.Versions(w, "").Consistent)
	case "status":
		status := explain.StatusOf(w)
		return strings.Join(append([]string{status.Overall}, status.Warnings...), "\n")
	case "check":
		return found(explain.CheckUp(w, s.facts, false))
	case "validate":
		var text strings.Builder
		if err := printTables(&text, explain.Against(w, filed(t, s.files, "-")).Tables()); err != nil {
			t.Fatal(err)
		}
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
	scenes, err := os.ReadFile(filepath.Join("testdata", "scenes", "check.txt"))
	if err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "kubectl-purelb.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range explain.CheckUp(wellWorld(t), fine(), false).Findings {
		if !strings.Contains(string(scenes), " "+f.Check+": ") {
			t.Errorf("nothing breaks the check %s", f.Check)
		}
		if !strings.Contains(string(manual), "\n### check "+f.Check+"\n") {
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
