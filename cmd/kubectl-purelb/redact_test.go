package main

import (
	"encoding/json"
	"testing"
)

// The argument of a flag for a key is secret, in the arguments of a container and in its logs.
func TestArgumentsHaveNoSecrets(t *testing.T) {
	var pod map[string]any
	text := `{"args":["--private-key","AAAAAA","--secret-key","BBBB","--auth-key=CCCCCC","--log-level","debug"],"command":["x","--auth-key","FFFFFF"],"last":["sh","-c","x --tls-key 'GG GG' --port 80"]}`
	if err := json.Unmarshal([]byte(text), &pod); err != nil {
		t.Fatal(err)
	}
	var r redactor
	r.objects([]map[string]any{pod})
	got, err := json.Marshal(pod)
	if want := `{"args":["--private-key","REDACTED","--secret-key","REDACTED","--auth-key=REDACTED","--log-level","debug"],"command":["x","--auth-key","REDACTED"],"last":["sh","-c","x --tls-key REDACTED --port 80"]}`; string(got) != want || err != nil {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if got, want := r.text("started with AAAAAA, CCCCCC and FFFFFF"), "started with REDACTED, REDACTED and REDACTED"; got != want {
		t.Errorf("the log is %q, want %q", got, want)
	}
}
