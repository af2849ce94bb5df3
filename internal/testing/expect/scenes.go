package expect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Scenes plays the scenes of the files that match pattern. A scene ends with an empty line, and its
// first line is "# name". play returns the other lines, with the answers of the code in them, which
// must be those of the file. With update, Scenes writes the answers into the file.
func Scenes(t *testing.T, pattern string, update bool, play func(t *testing.T, script string) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenes in %s: %v", pattern, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		NoError(t, err)
		var played []string
		for scene := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
			name, script, _ := strings.Cut(scene, "\n")
			answered := script
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+strings.TrimPrefix(name, "# "), func(t *testing.T) {
				answered = play(t, script)
				Equal(t, "the scene", answered, script)
			})
			played = append(played, name+"\n"+answered)
		}
		if update {
			NoError(t, os.WriteFile(file, []byte(strings.Join(played, "\n\n")+"\n"), 0o644)) //nolint:gosec // source code
		}
	}
}
