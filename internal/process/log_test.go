package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"purelb.io/purelb/internal/testing/expect"
)

func TestLogIsOneJSONObjectALine(t *testing.T) {
	for _, tt := range []struct{ level, want string }{
		{"info", "INFO announcing 192.0.2.1;"},
		{"debug", "DEBUG kept 192.0.2.2;INFO announcing 192.0.2.1;"},
		{"DEBUG", "DEBUG kept 192.0.2.2;INFO announcing 192.0.2.1;"},
	} {
		level, err := Level(tt.level)
		expect.NoError(t, err)
		var text, got strings.Builder
		log := Logger(&text, level, nil)
		log.DebugContext(t.Context(), "kept", "address", "192.0.2.2")
		log.InfoContext(t.Context(), "announcing", "address", "192.0.2.1")
		for line := range strings.Lines(text.String()) {
			var said struct{ Level, Msg, Address string }
			if err := json.Unmarshal([]byte(line), &said); err != nil {
				t.Errorf("%s: %v", line, err)
			}
			fmt.Fprintf(&got, "%s %s %s;", said.Level, said.Msg, said.Address)
		}
		expect.Equal(t, tt.level, got.String(), tt.want)
	}
}

func TestRequestsCutByTheEndAreNoErrors(t *testing.T) {
	cut := &url.Error{Op: "Get", URL: "https://api", Err: context.Canceled}
	const lost = "leader election lost"
	for _, tt := range []struct {
		name  string
		ended bool
		level slog.Level
		err   error
		want  string // the level of the record; "": it is not written
	}{
		{"a request that the end cuts", true, slog.LevelInfo, cut, ""},
		{"a request that the end cuts, at level debug", true, slog.LevelDebug, cut, "DEBUG"},
		{"a request that is cut before the end", false, slog.LevelInfo, cut, "ERROR"},
		{"a request that takes too long", true, slog.LevelInfo, context.DeadlineExceeded, "ERROR"},
		{"a real error", true, slog.LevelInfo, io.ErrUnexpectedEOF, "ERROR"},
		{"requests that the end cuts", true, slog.LevelInfo, errors.Join(cut, fmt.Errorf("read: %w", errors.Join(cut, errors.New(lost)))), ""},
		{"a real error joined with a request that the end cuts", true, slog.LevelInfo, errors.Join(io.ErrUnexpectedEOF, cut), "ERROR"},
		{"the same, wrapped", true, slog.LevelInfo, fmt.Errorf("read: %w", errors.Join(cut, io.ErrUnexpectedEOF)), "ERROR"},
		{"no error", true, slog.LevelInfo, nil, "ERROR"},
		{"a consequence", true, slog.LevelInfo, errors.New(lost), ""},
		{"a consequence, before the end", false, slog.LevelInfo, errors.New(lost), "ERROR"},
		{"more than a consequence", true, slog.LevelInfo, errors.New(lost + ": another leads"), "ERROR"},
	} {
		for how, of := range map[string]func(*slog.Logger){
			"slog": func(l *slog.Logger) {
				l.With("node", "a").WithGroup("of").ErrorContext(t.Context(), "failed", "try", 1, "error", tt.err)
			},
			"logr": func(l *slog.Logger) {
				logr.FromSlogHandler(l.Handler()).WithName("library").WithValues("node", "a").Error(tt.err, "failed")
			},
		} {
			ended := make(chan struct{})
			if tt.ended {
				close(ended)
			}
			var text strings.Builder
			of(Logger(&text, tt.level, ended, lost))
			var said struct{ Level, Node string }
			if text.Len() > 0 {
				if err := json.Unmarshal([]byte(text.String()), &said); err != nil {
					t.Fatalf("%s: %s: %v", tt.name, how, err)
				}
				expect.Equal(t, tt.name+": "+how+": the earlier attribute in "+text.String(), said.Node, "a")
			}
			expect.Equal(t, tt.name+": "+how+": level", said.Level, tt.want)
		}
	}
}

func TestUnknownLevelIsAnError(t *testing.T) {
	_, err := Level("loud")
	if want := `--log-level "loud" is not known; use info or debug`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
