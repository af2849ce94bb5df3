package process

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Level is what --log-level says.
func Level(text string) (slog.Level, error) {
	switch strings.ToLower(text) {
	case "info":
		return slog.LevelInfo, nil
	case "debug":
		return slog.LevelDebug, nil
	}
	return 0, fmt.Errorf("--log-level %q is not known; say info or debug", text)
}

// Logger writes one JSON object a line.
func Logger(to io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level}))
}
