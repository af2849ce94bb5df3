package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

// texts returns the texts of the files that match patterns, by their names.
func texts(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no file matches %s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			expect.NoError(t, err)
			all[file] = string(text)
		}
	}
	return all
}

// What the manual shows are the answers of the golden files.
func TestTheManualShowsRealAnswers(t *testing.T) {
	answers := map[string]string{}
	for _, text := range texts(t, "testdata/golden/*.txt", "testdata/dashboard.txt") {
		shown := strings.NewReplacer(" -f testdata/cluster.yaml", "", " -f testdata/moves.yaml", "").Replace(text)
		first, _, _ := strings.Cut(shown, "\n")
		answers[first] = shown
	}
	const manual = "../../docs/kubectl-purelb.md"
	blocks := strings.Split(texts(t, manual)[manual], "```console\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("the manual shows no answers")
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		first, _, _ := strings.Cut(block, "\n")
		expect.Equal(t, first, block, answers[first])
	}
}

// A gate of a repository accepts what the manual tells people to write.
func TestTheExamplesOfTheManualAreValid(t *testing.T) {
	n := 0
	for page, text := range texts(t, "../../docs/*.md", "../../README.md") {
		for _, block := range strings.Split(text, "```yaml\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			out, code := offline(t, block, "validate", "-f", "-")
			if code == exitProblems || code == exitFailed && !strings.Contains(out, "or other object that PureLB reads") {
				t.Errorf("%s: exit code %d:\n%s\nof\n%s", page, code, out, block)
			}
			if code == exitFine {
				n++
			}
		}
	}
	if n < 20 {
		t.Errorf("the manual has %d examples", n)
	}
}

var commandLine = regexp.MustCompile("(?m)(?:`|^ *(?:\\$ )?)kubectl purelb ([a-z][^`|\n]*)")

// A reader can run the commands of the pages: their subcommands and flags exist.
func TestThePagesNameCommandsThatExist(t *testing.T) {
	n := 0
	for page, text := range texts(t, "../../docs/*.md", "../../docs/migrate/*.md", "../../README.md", "../../SECURITY.md") {
		for _, found := range commandLine.FindAllStringSubmatch(text, -1) {
			n++
			if err := parses(strings.Fields(found[1])); err != nil {
				t.Errorf("%s: kubectl purelb %s: %v", page, found[1], err)
			}
		}
	}
	if n < 50 {
		t.Errorf("the pages name %d commands", n)
	}
}

// parses returns an error if the plugin has no such command or flag.
func parses(args []string) error {
	cmd, rest, err := newRoot(&options{}).Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if cmd.HasSubCommands() {
		return noArguments(cmd, cmd.Flags().Args())
	}
	return nil
}
