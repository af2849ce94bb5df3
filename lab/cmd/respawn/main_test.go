package main

import (
	"os"
	"syscall"
	"testing"
)

func TestOnlyKilledProgramsRunAgain(t *testing.T) {
	for script, want := range map[string]struct {
		code   int
		killed bool
	}{
		"exit 0":        {0, false},
		"exit 3":        {3, false},
		"kill -KILL $$": {-1, true},
		"kill -TERM $$": {-1, false},
	} {
		if code, killed := run([]string{"/bin/sh", "-c", script}, nil); code != want.code || killed != want.killed {
			t.Errorf("%s: exit code %d, killed %t; want %d, %t", script, code, killed, want.code, want.killed)
		}
	}
}

func TestSignalsAreForwarded(t *testing.T) {
	ends := make(chan os.Signal, 1)
	ends <- syscall.SIGTERM
	code, killed := run([]string{"/bin/sh", "-c", `trap "exit 7" TERM; while :; do sleep 0.01; done`}, ends)
	if killed || code != 7 && code != -1 { // -1 means that the signal came before the trap
		t.Errorf("exit code %d, killed %t", code, killed)
	}
}
