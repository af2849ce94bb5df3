// Package state stores the data that must outlive the command that made it: a directory, the lock
// on it, and the record of the lab's processes. It does not know what those processes do.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Dir is the state directory.
type Dir string

const usual Dir = "/var/lib/purelb-lab"

// Default returns the directory in LAB_STATE, or the usual one.
func Default() Dir {
	if d, err := filepath.Abs(os.Getenv("LAB_STATE")); err == nil && os.Getenv("LAB_STATE") != "" {
		return Dir(d)
	}
	return usual
}

// Beside returns the directory of the lab with that number among labs beside each other. The first is
// d itself.
func (d Dir) Beside(number int) Dir {
	if number == 1 {
		return d
	}
	return Dir(fmt.Sprintf("%s-%d", d, number))
}

// name returns the name of a host-wide object of this lab. The usual lab has plain names. So labs
// with different directories can be up at the same time.
func (d Dir) name(plain string) string {
	if d == usual {
		return plain
	}
	return fmt.Sprintf("%s%08x", plain, crc32.ChecksumIEEE([]byte(d)))
}

// Netns is the prefix of the names of network namespaces.
func (d Dir) Netns() string { return d.name("purelb") + "-" }

// Group is the control group that contains the groups of the machines.
func (d Dir) Group() string { return d.name("purelb-lab") }

func (d Dir) path(elem ...string) string {
	return filepath.Join(append([]string{string(d)}, elem...)...)
}

// Program is the copy of the lab's own executable that its machines run.
func (d Dir) Program() string { return d.path("lab") }

// Kubeconfig is the file with which the host reaches the API server.
func (d Dir) Kubeconfig() string { return d.path("kubeconfig") }

// PKI is the directory of keys, certificates and the programs' kubeconfigs.
func (d Dir) PKI() string { return d.path("pki") }

// Images is the directory of the image registry.
func (d Dir) Images() string { return d.path("images") }

// Etcd is etcd's data directory.
func (d Dir) Etcd() string { return d.path("etcd") }

// Probe is where the lab tests the host before it starts.
func (d Dir) Probe() string { return string(d) + ".probe" }

// Machine is the directory of one machine.
func (d Dir) Machine(name string) string { return d.path("machines", name) }

// Disk is a directory of a machine that survives a power cut.
func (d Dir) Disk(machine, name string) string {
	return filepath.Join(d.Machine(machine), "disk", name)
}

// Log is the file with a program's output.
func (d Dir) Log(machine, program string) string { return d.path("log", machine, program+".log") }

// Logs returns the programs of a machine that have a log.
func (d Dir) Logs(machine string) ([]string, error) {
	files, err := filepath.Glob(d.Log(machine, "*"))
	for i, f := range files {
		base := filepath.Base(f)
		files[i] = base[:len(base)-len(".log")]
	}
	return files, err
}

// Exists reports whether a lab exists, complete or not.
func (d Dir) Exists() bool {
	_, err := os.Stat(d.path("lab.json"))
	return err == nil
}

// Lab is the record of the lab as a whole.
type Lab struct {
	Nodes int    // number of nodes
	World string // the name of the world, "" is the standard one
	Port  int    // port of the API server on the host's loopback
	Bin   string // directory of the compiled programs
	Up    bool   // true once everything has started
}

// Lab reads the record. fs.ErrNotExist means that no lab exists.
func (d Dir) Lab() (Lab, error) {
	var l Lab
	return l, read(d.path("lab.json"), &l)
}

// SetLab writes the record.
func (d Dir) SetLab(l Lab) error { return write(d.path("lab.json"), l) }

// SetProcess records the first process of a machine.
func (d Dir) SetProcess(machine string, p Process) error {
	return write(filepath.Join(d.Machine(machine), "pid.json"), p)
}

// Process returns the first process of a machine. fs.ErrNotExist means that none was started.
func (d Dir) Process(machine string) (Process, error) {
	var p Process
	return p, read(filepath.Join(d.Machine(machine), "pid.json"), &p)
}

// Since returns when the first process of a machine was recorded, which is when the machine was
// powered on.
func (d Dir) Since(machine string) (time.Time, error) {
	fi, err := os.Stat(filepath.Join(d.Machine(machine), "pid.json"))
	if err != nil {
		return time.Time{}, err
	}
	return fi.ModTime(), nil
}

// Recorded returns the machines that have a recorded process.
func (d Dir) Recorded() []string {
	files, _ := filepath.Glob(filepath.Join(d.Machine("*"), "pid.json"))
	for i, f := range files {
		files[i] = filepath.Base(filepath.Dir(f))
	}
	return files
}

// Remove deletes everything, the directory included.
func (d Dir) Remove() error {
	if d == "" || d == "/" {
		return fmt.Errorf("state directory %q: refusing to remove", d)
	}
	return errors.Join(os.RemoveAll(d.Probe()), os.RemoveAll(string(d)))
}

// Clear deletes everything in the directory.
func (d Dir) Clear() error {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(d.path(e.Name())))
	}
	return errors.Join(errs...)
}

// Lock waits until no other command changes the lab. It excludes other commands until the caller
// calls unlock. The end of the process releases the lock, too.
func (d Dir) Lock() (unlock func(), err error) {
	for {
		f, err := d.flock()
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", d, err)
		}
		if d.is(f) {
			return func() { f.Close() }, nil
		}
		f.Close() // the previous owner of the lock has removed the file
	}
}

func (d Dir) flock() (*os.File, error) {
	if err := os.MkdirAll(string(d), 0o755); err != nil {
		return nil, err
	}
	f, err := os.Open(string(d))
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			return f, err
		}
	}
}

func (d Dir) is(f *os.File) bool {
	a, err1 := f.Stat()
	b, err2 := os.Stat(string(d))
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

func read(file string, into any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// write replaces the file in one step, so that a crash leaves the old content.
func write(file string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	tmp := file + ".new"
	if err := os.WriteFile(tmp, b, fs.FileMode(0o600)); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}
