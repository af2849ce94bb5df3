package bfd

import "testing"

func TestAFailureDiffersFromAWithdrawal(t *testing.T) {
	const pathDown = Diagnostic(5)
	for _, tt := range []struct {
		name  string
		event Event
		want  bool
	}{
		{"silence", Event{From: Up, To: Down, Diagnostic: timeExpired}, true},
		{"the other end misses our packets", Event{From: Up, To: Down, Diagnostic: neighborDown, RemoteDiagnostic: timeExpired}, true},
		{"the other end knows that the path is down", Event{From: Up, To: Down, Diagnostic: neighborDown, RemoteDiagnostic: pathDown}, true},
		{"the other end is disabled", Event{From: Up, To: Down, Diagnostic: neighborDown, RemoteAdminDown: true}, false},
		{"the process of the other end restarts", Event{From: Up, To: Down, Diagnostic: neighborDown}, false},
		{"the other end creates its session anew", Event{From: Up, To: Down, Diagnostic: neighborDown, RemoteDiagnostic: neighborDown}, false},
		{"a session that was not up yet", Event{From: Init, To: Down, Diagnostic: timeExpired}, false},
		{"a session that comes up", Event{From: Down, To: Up}, false},
	} {
		if got := tt.event.Failed(); got != tt.want {
			t.Errorf("%s: a failure: %v, want %v", tt.name, got, tt.want)
		}
	}
}
