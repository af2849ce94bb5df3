package speaker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/process"
)

// memoryVersion is the version of the file format. The speaker does not read other versions.
const memoryVersion = 1

// memory is the content of the file. It contains passwords.
type memory struct {
	Version int
	Input   intent.Input
}

// recall reads the last good input of node from a file. A missing file is no error.
func recall(path, node string) (in intent.Input, ok bool, err error) {
	if path == "" {
		return intent.Input{}, false, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return intent.Input{}, false, nil
	}
	if err != nil {
		return intent.Input{}, false, fmt.Errorf("read the last input: %w", err)
	}
	var m memory
	// The error does not show the text, because it contains passwords.
	if json.Unmarshal(text, &m) != nil {
		return intent.Input{}, false, fmt.Errorf("read the last input: %s is damaged", path)
	}
	switch {
	case m.Version != memoryVersion:
		return intent.Input{}, false, fmt.Errorf("read the last input: %s is of version %d, and %d is known", path, m.Version, memoryVersion)
	case m.Input.Node.Name != node:
		return intent.Input{}, false, fmt.Errorf("read the last input: %s is of node %q", path, m.Input.Node.Name)
	}
	return m.Input, true, nil
}

// remember writes the last good input to a file.
func remember(path string, in intent.Input) error {
	text, err := json.Marshal(memory{memoryVersion, in})
	if err == nil {
		err = process.WriteFile(path, text)
	}
	if err != nil {
		return fmt.Errorf("write the last input: %w", err)
	}
	return nil
}

// inputWriter writes one input at a time.
type inputWriter struct {
	// last is the last input to write, or the one in the file. busy says that an input is being written.
	last *intent.Input
	busy bool
}

// rememberInBackground stores in, unless it is stored already. It does not block the loop.
func (s *Speaker) rememberInBackground(ctx context.Context, in intent.Input) {
	w := &s.inputWriter
	if s.Memory == "" || w.last != nil && w.last.Same(in) {
		return
	}
	w.last = &in
	if w.busy {
		return // until the one before is written
	}
	w.busy = true
	s.background.start(ctx, func(context.Context) completion {
		err := remember(s.Memory, in)
		return func(ctx context.Context, _ time.Time) {
			w.busy = false
			next := *w.last
			w.last = &in
			if err != nil {
				s.Log.WarnContext(ctx, "inputNotRemembered", "node", s.Node, "error", err)
				w.last = nil
			} else {
				s.rememberInBackground(ctx, next)
			}
		}
	})
}
