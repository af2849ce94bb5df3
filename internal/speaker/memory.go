package speaker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// memoryVersion is of the format of the file. Another one is not read.
const memoryVersion = 1

// memory is what is in the file. It has passwords in it.
type memory struct {
	Version int
	Input   Input
}

// recall reads the last good input of node from a file. Without a file there is
// none, and that is no error.
func recall(path, node string) (in Input, ok bool, err error) {
	if path == "" {
		return Input{}, false, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Input{}, false, nil
	}
	if err != nil {
		return Input{}, false, fmt.Errorf("read the last input: %w", err)
	}
	var m memory
	// The text is not shown: there are passwords in it.
	if json.Unmarshal(text, &m) != nil {
		return Input{}, false, fmt.Errorf("read the last input: %s is damaged", path)
	}
	switch {
	case m.Version != memoryVersion:
		return Input{}, false, fmt.Errorf("read the last input: %s is of version %d, and %d is known", path, m.Version, memoryVersion)
	case m.Input.Node.Name != node:
		return Input{}, false, fmt.Errorf("read the last input: %s is of node %q", path, m.Input.Node.Name)
	}
	return m.Input, true, nil
}

// remember writes the last good input to a file that only we can read, whole or
// not at all.
func remember(path string, in Input) error {
	if path == "" {
		return nil
	}
	text, err := json.Marshal(memory{memoryVersion, in})
	if err != nil {
		return fmt.Errorf("write the last input: %w", err)
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".input-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("write the last input: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // if it was not renamed
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("write the last input: %w", err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("write the last input: %w", err)
	}
	return nil
}

// keeper writes the file of the last input, the newest last.
type keeper struct {
	mu      sync.Mutex
	written int
	asked   int // belongs to the loop
}

// rememberBeside has in remembered, unless it is already.
func (s *Speaker) rememberBeside(ctx context.Context, in Input) {
	g := &s.governing
	if s.Memory == "" || g.remembered != nil && g.remembered.same(in) {
		return
	}
	g.remembered = &in
	s.keeper.asked++
	number := s.keeper.asked
	s.beside.start(ctx, func(context.Context) note {
		s.keeper.mu.Lock()
		defer s.keeper.mu.Unlock()
		if number < s.keeper.written {
			return nil
		}
		s.keeper.written = number
		err := remember(s.Memory, in)
		if err == nil {
			return nil
		}
		return func(ctx context.Context, _ time.Time) {
			s.Log.WarnContext(ctx, "inputNotRemembered", "node", s.Node, "error", err)
			g.remembered = nil
		}
	})
}
