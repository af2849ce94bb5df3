package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
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
//
// When ended is closed the process ends, and cuts requests of its own. Libraries call that
// an error. Such a record is one of level debug: its error is a cancellation, or says
// exactly one of consequences, which are what else the end brings about.
func Logger(to io.Writer, level slog.Level, ended <-chan struct{}, consequences ...string) *slog.Logger {
	json := slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level})
	return slog.New(ending{json, ended, consequences})
}

// ending is a Handler that knows what the end of the process brings about.
type ending struct {
	slog.Handler
	ended        <-chan struct{}
	consequences []string
}

// Handle handles r, with another level if it tells of nothing but the end.
func (e ending) Handle(ctx context.Context, r slog.Record) error {
	select {
	case <-e.ended:
		if r.Level > slog.LevelInfo && e.caused(r) {
			r.Level = slog.LevelDebug
			if !e.Enabled(ctx, r.Level) {
				return nil
			}
		}
	default:
	}
	return e.Handler.Handle(ctx, r)
}

// caused says whether the end brought about what r tells.
func (e ending) caused(r slog.Record) (caused bool) {
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			caused = errors.Is(err, context.Canceled) || slices.Contains(e.consequences, err.Error())
		}
		return !caused
	})
	return caused
}

// WithAttrs and WithGroup are those of Handler.
func (e ending) WithAttrs(attrs []slog.Attr) slog.Handler {
	e.Handler = e.Handler.WithAttrs(attrs)
	return e
}

// WithGroup is after WithAttrs.
func (e ending) WithGroup(name string) slog.Handler {
	e.Handler = e.Handler.WithGroup(name)
	return e
}
