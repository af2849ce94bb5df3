package process

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestTheLogIsAnObjectALineOfTheLevelThatIsAskedFor(t *testing.T) {
	for _, tt := range []struct{ level, want string }{
		{"info", "INFO announcing 192.0.2.1;"},
		{"debug", "DEBUG kept 192.0.2.2;INFO announcing 192.0.2.1;"},
		{"DEBUG", "DEBUG kept 192.0.2.2;INFO announcing 192.0.2.1;"},
	} {
		level, err := Level(tt.level)
		if err != nil {
			t.Fatal(err)
		}
		var text, got strings.Builder
		log := Logger(&text, level)
		log.DebugContext(t.Context(), "kept", "address", "192.0.2.2")
		log.InfoContext(t.Context(), "announcing", "address", "192.0.2.1")
		for line := range strings.Lines(text.String()) {
			var said struct{ Level, Msg, Address string }
			if err := json.Unmarshal([]byte(line), &said); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			fmt.Fprintf(&got, "%s %s %s;", said.Level, said.Msg, said.Address)
		}
		if got.String() != tt.want {
			t.Errorf("%s: got %s, want %s", tt.level, got.String(), tt.want)
		}
	}
}

func TestALevelThatIsNotKnownIsAnError(t *testing.T) {
	_, err := Level("loud")
	if want := `--log-level "loud" is not known; say info or debug`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
