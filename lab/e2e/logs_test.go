package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"purelb.io/purelb/lab/product"
)

// complaint is a WARN or ERROR line of a program of the product.
type complaint struct {
	Node, Program string
	// Message is the name of the event. For a line that is not structured, such as the line of a panic,
	// it is the whole line.
	Message string
	Text    string
}

func (c complaint) String() string { return fmt.Sprintf("%s on %s: %s", c.Program, c.Node, c.Text) }

// logBook reads the logs of the product's containers from the disks of the nodes. The kubelet removes
// a log with its pod. logBook keeps the file open, so it reads the last lines of agents too.
type logBook struct {
	mu         sync.Mutex
	open       map[string]*logFile
	complaints []complaint
}

type logFile struct {
	*os.File
	node, program string
	rest          []byte // the first part of an incomplete line
}

// followLogs reads all logs from now on until the process ends.
func (f fixture) followLogs() *logBook {
	b := &logBook{open: map[string]*logFile{}}
	go func() {
		for range time.Tick(200 * time.Millisecond) {
			b.read(f)
		}
	}()
	return b
}

// read reads all logs, and returns the number of complaints so far.
func (b *logBook) read(f fixture) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range f.Nodes() {
		pattern := filepath.Join(f.Spec.State.Disk(n.Name, "pods"), product.Namespace+"_*", "*", "*.log")
		files, _ := filepath.Glob(pattern)
		for _, path := range files {
			if b.open[path] != nil {
				continue
			}
			file, err := os.Open(path)
			if err == nil {
				b.open[path] = &logFile{File: file, node: n.Name, program: filepath.Base(filepath.Dir(path))}
			}
		}
	}
	for path, file := range b.open {
		there, err := os.Stat(path)
		b.complaints = append(b.complaints, file.complaints()...)
		if is, err2 := file.Stat(); err != nil || err2 != nil || !os.SameFile(is, there) {
			_ = file.Close()
			delete(b.open, path)
		}
	}
	return len(b.complaints)
}

// since returns the complaints after the first n.
func (b *logBook) since(n int) []complaint {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.complaints[n:])
}

// complaints returns the complaints since the last call.
func (l *logFile) complaints() (found []complaint) {
	text, _ := io.ReadAll(l)
	l.rest = append(l.rest, text...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return found
		}
		l.rest = rest
		if c, ok := complaintOf(string(line)); ok {
			c.Node, c.Program = l.node, l.program
			found = append(found, c)
		}
	}
}

// complaintOf reads a line in containerd's format: time, stream, a flag and the text.
func complaintOf(line string) (complaint, bool) {
	fields := strings.SplitN(line, " ", 4)
	text := fields[len(fields)-1]
	var said struct{ Level, Msg string }
	if json.Unmarshal([]byte(text), &said) != nil || said.Level == "" {
		return complaint{Message: text, Text: text}, strings.TrimSpace(text) != ""
	}
	return complaint{Message: said.Msg, Text: text}, said.Level == "WARN" || said.Level == "ERROR"
}
