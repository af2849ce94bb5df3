package state

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProcessIsRecognizedAndKilled(t *testing.T) {
	cmd := sleeper(t)
	p, err := Identify(cmd.Process.Pid)
	if err != nil || !p.Alive() {
		t.Fatalf("Identify = %v, %v; alive %v", p, err, p.Alive())
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if p.Alive() { // the process is a zombie until its parent waits for it
		t.Error("the process is alive after Kill")
	}
	if err := p.Kill(); err != nil {
		t.Errorf("a second Kill returns %v", err)
	}
}

func TestReusedProcessIDIsNotKilled(t *testing.T) {
	cmd := sleeper(t)
	real, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	later, otherBoot := real, real
	later.Start++
	otherBoot.Boot = "another"
	for _, p := range []Process{later, otherBoot, {}} {
		if p.Alive() {
			t.Errorf("the process %v is taken for %v", p, real)
		}
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	}
	if !real.Alive() {
		t.Error("the process was killed")
	}
}

func TestRecordsAreReadBack(t *testing.T) {
	d := Dir(t.TempDir())
	if _, err := d.Lab(); !errors.Is(err, fs.ErrNotExist) || d.Exists() {
		t.Errorf("Lab without a record: %v; exists %v", err, d.Exists())
	}
	want := Lab{Nodes: 4, Port: 16443, Bin: "/bin", Up: true}
	if err := d.SetLab(want); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Lab(); err != nil || got != want {
		t.Errorf("Lab = %v, %v", got, err)
	}
	p := Process{PID: 7, Start: 8, Boot: "b"}
	if err := d.SetProcess("node-1", p); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Process("node-1"); err != nil || got != p {
		t.Errorf("Process = %v, %v", got, err)
	}
	if diff := cmp.Diff([]string{"node-1"}, d.Recorded()); diff != "" {
		t.Error(diff)
	}
}

func TestLockIsExclusiveAndSurvivesRemoval(t *testing.T) {
	d := Dir(filepath.Join(t.TempDir(), "state"))
	unlock, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan func())
	go func() {
		unlock, err := d.Lock()
		if err != nil {
			t.Error(err)
		}
		second <- unlock
	}()
	select {
	case <-second:
		t.Fatal("two callers hold the lock")
	case <-time.After(50 * time.Millisecond):
	}
	if err := d.Remove(); err != nil { // as `lab down` does
		t.Fatal(err)
	}
	unlock()
	(<-second)()
	if _, err := os.Stat(string(d)); err != nil {
		t.Errorf("the second caller holds the lock of a removed file: %v", err)
	}
}

func TestTheRootDirectoryIsNeverRemoved(t *testing.T) {
	for _, d := range []Dir{"", "/"} {
		if d.Remove() == nil {
			t.Errorf("Remove of %q", d)
		}
	}
}

func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}
