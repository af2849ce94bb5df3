package main

import (
	"strings"
	"testing"
)

// Without PureLB most answers are empty. An empty answer alone does not say why.
func TestEmptyAnswersSayThatPureLBDoesNotRun(t *testing.T) {
	for _, args := range []string{"pools", "services", "election", "bgp sessions", "bgp dataplane", "validate", "version", "explain ip 192.0.2.1", "services -o json"} {
		out, errs, _ := newFakeServer(t).ask(t, strings.Fields(args)...)
		want := "note: PureLB does not run in namespace purelb-system: there is neither a pod nor a Lease of it (--purelb-namespace names another)\n"
		if errs != want || strings.Contains(out, "note:") {
			t.Errorf("%s says\n%s%s\nwant %s", args, out, errs, want)
		}
	}
}
