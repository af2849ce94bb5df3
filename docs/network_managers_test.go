package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files for network managers are in your-network.md as they are in the examples.
func TestFilesForNetworkManagersAreOnThePage(t *testing.T) {
	page, err := os.ReadFile("your-network.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("examples/network-managers/*")
	if err != nil || len(files) != 4 {
		t.Fatalf("there are %q, %v; want four files", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "```\n"+string(text)+"```\n") {
			t.Errorf("your-network.md lacks %s as it is", file)
		}
	}
}
