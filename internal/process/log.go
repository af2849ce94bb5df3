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

// Level parses the value of --log-level.
func Level(text string) (slog.Level, error) {
	switch strings.ToLower(text) {
	case "info":
		return slog.LevelInfo, nil
	case "debug":
		return slog.LevelDebug, nil
	}
	return 0, fmt.Errorf("--log-level %q is not known; use info or debug", text)
}

// Logger returns a logger that writes one JSON object per line.
//
// When ended is closed, the process ends and cancels its own requests. Libraries log that as an
// error. If all errors of a record are cancellations or listed in consequences, Logger lowers its
// level to debug. If a record also has another error, it keeps its level.
func Logger(to io.Writer, level slog.Level, ended <-chan struct{}, consequences ...string) *slog.Logger {
	json := slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level})
	return slog.New(ending{json, ended, consequences})
}

// ending is a Handler that recognizes the results of the end of the process.
type ending struct {
	slog.Handler
	ended        <-chan struct{}
	consequences []string
}

// Handle handles r, with another level if the end of the process caused r.
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

// caused reports whether r has errors, and the end of the process caused all of them.
func (e ending) caused(r slog.Record) bool {
	some, all := false, true
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			some, all = true, all && e.result(err)
		}
		return all
	})
	return some && all
}

// result reports whether err is a result of the end. If errors are joined, all of them must be
// results of the end.
func (e ending) result(err error) bool {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(several.Unwrap(), func(one error) bool { return !e.result(one) })
	}
	if slices.Contains(e.consequences, err.Error()) {
		return true
	}
	if inner := errors.Unwrap(err); inner != nil {
		return e.result(inner)
	}
	return errors.Is(err, context.Canceled)
}

// WithAttrs implements slog.Handler.
func (e ending) WithAttrs(attrs []slog.Attr) slog.Handler {
	e.Handler = e.Handler.WithAttrs(attrs)
	return e
}

// WithGroup implements slog.Handler.
func (e ending) WithGroup(name string) slog.Handler {
	e.Handler = e.Handler.WithGroup(name)
	return e
}
