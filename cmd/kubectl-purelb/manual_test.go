package main

import (
	"os"
	"path/filepath"
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
		shown := strings.ReplaceAll(string(text), " -f testdata/cluster.yaml", "")
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
