package speaker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
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

// inputWriter keeps writes of inputs in order. It skips an input if a newer one was written.
type inputWriter struct {
	mu      sync.Mutex
	written int
	// asked and last belong to the loop. last is the last input to write.
	asked int
	last  *intent.Input
}

// rememberInBackground stores in, unless it is stored already. It does not block the loop.
func (s *Speaker) rememberInBackground(ctx context.Context, in intent.Input) {
	if s.Memory == "" || s.inputWriter.last != nil && s.inputWriter.last.Same(in) {
		return
	}
	s.inputWriter.last = &in
	s.inputWriter.asked++
	number := s.inputWriter.asked
	s.background.start(ctx, func(context.Context) completion {
		s.inputWriter.mu.Lock()
		defer s.inputWriter.mu.Unlock()
		if number < s.inputWriter.written {
			return nil
		}
		s.inputWriter.written = number
		err := remember(s.Memory, in)
		if err == nil {
			return nil
		}
		return func(ctx context.Context, _ time.Time) {
			s.Log.WarnContext(ctx, "inputNotRemembered", "node", s.Node, "error", err)
			s.inputWriter.last = nil
		}
	})
}
