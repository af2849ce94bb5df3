package gobgp

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
)

// logHandler logs GoBGP's messages one level lower than GoBGP does, because this package reports
// the important facts itself. It drops GoBGP's debug messages, because there is one for every
// route.
type logHandler struct {
	slog.Handler
	*logState
}

// logState is shared by all loggers that GoBGP derives.
type logState struct {
	muted atomic.Bool
	mu    sync.Mutex
	// noMD5 are the neighbors whose password the kernel refused, with the reason. GoBGP only logs
	// the refusal, and would open the session without a password.
	noMD5 map[string]string
}

func newLogHandler(log *slog.Logger) *logHandler {
	return &logHandler{Handler: log.Handler(), logState: &logState{noMD5: map[string]string{}}}
}

// tooMuch is GoBGP's message about a neighbor that is near its prefix limit, or above it.
// GoBGP has no other report for a neighbor near its limit.
const tooMuch = "prefix limit reached"

func (l *logHandler) mute() { l.muted.Store(true) }

func demoted(level slog.Level) slog.Level { return level - 4 }

func (l *logHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || level > slog.LevelDebug && l.Handler.Enabled(ctx, demoted(level))
}

func (l *logHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "failed to set md5" {
		l.note(r)
	}
	level := demoted(r.Level)
	if r.Message == tooMuch {
		level = r.Level
	}
	if l.muted.Load() || !l.Handler.Enabled(ctx, level) {
		return nil
	}
	r = r.Clone()
	r.Level = level
	r.AddAttrs(slog.String("from", "gobgp"))
	return l.Handler.Handle(ctx, r)
}

func (l *logHandler) note(r slog.Record) {
	var key, why string
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "Key":
			key = a.Value.String()
		case "Err":
			why = a.Value.String()
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noMD5[key] = why
}

// md5Failure returns and removes the reason why a neighbor has no password.
func (l *logHandler) md5Failure(key string) (why string, failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	why, failed = l.noMD5[key]
	delete(l.noMD5, key)
	return why, failed
}

func (l *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{Handler: l.Handler.WithAttrs(attrs), logState: l.logState}
}

func (l *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{Handler: l.Handler.WithGroup(name), logState: l.logState}
}
