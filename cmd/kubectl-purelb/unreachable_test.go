package main

import (
	"net/http"
	"strings"
	"testing"
)

// An error says what does not work, and what to do.
func TestAClusterThatCannotBeReadSaysWhatToDo(t *testing.T) {
	const everything = "purelb-viewer"
	for _, tt := range []struct {
		name string
		code int
		want string
	}{
		{"no right", http.StatusForbidden, "error: you have none of the rights that the answer needs; ask an administrator to bind the ClusterRole " + everything + " to you: "},
		{"wrong credentials", http.StatusUnauthorized, "error: read the cluster: the API server does not accept your credentials; log in again, or choose another user with --user or --context: "},
		{"an error of the server", http.StatusInternalServerError, `; "kubectl cluster-info" tests the connection`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := refusing(t, tt.code)
			out, errs, code := server.ask(t, "status")
			if code != exitFailed || !strings.Contains(errs, tt.want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("exit code %d\n got %s%s\nwant one line with %s", code, out, errs, tt.want)
			}
		})
	}
}

// refusing returns a server that answers each request with this code.
func refusing(t *testing.T, code int) *fakeServer {
	f := newFakeServer(t)
	f.all = code
	return f
}

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

func TestStatusCountsOneServiceInTheSingular(t *testing.T) {
	f := newFakeServer(t)
	f.purelb(t)
	f.objects[pathServices] = f.objects[pathServices][:1]
	if out, _, _ := f.ask(t, "status"); !strings.Contains(out, "\n  1 Service with 1 address: ") {
		t.Errorf("the status is\n%s", out)
	}
}
