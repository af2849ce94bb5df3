package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the manual shows are the answers of the golden files.
func TestTheManualShowsRealAnswers(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join("..", "..", "docs", "kubectl-purelb.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		shown := strings.NewReplacer(" -f testdata/cluster.yaml", "", " -f testdata/moves.yaml", "").Replace(string(text))
		first, _, _ := strings.Cut(shown, "\n")
		answers[first] = shown
	}
	blocks := strings.Split(string(manual), "```console\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("the manual shows no answers")
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		first, _, _ := strings.Cut(block, "\n")
		if diff := cmp.Diff(answers[first], block); diff != "" {
			t.Errorf("%s (-want +got):\n%s", first, diff)
		}
	}
}

// A gate of a repository accepts what the manual tells people to write.
func TestTheExamplesOfTheManualAreValid(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, page := range append(pages, filepath.Join("..", "..", "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
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
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	moves, err := filepath.Glob(filepath.Join("..", "..", "docs", "migrate", "*.md"))
	if err != nil || len(moves) == 0 {
		t.Fatal("no pages", err)
	}
	pages = append(append(pages, moves...), filepath.Join("..", "..", "README.md"), filepath.Join("..", "..", "SECURITY.md"))
	n := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range commandLine.FindAllStringSubmatch(string(text), -1) {
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
