package main

import (
	"encoding/json"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

// The argument of a flag for a key is secret, in the arguments of a container and in its logs.
func TestArgumentsHaveNoSecrets(t *testing.T) {
	var pod map[string]any
	text := `{"args":["--private-key","AAAAAA","--secret-key","BBBB","--auth-key=CCCCCC","--log-level","debug"],"command":["x","--auth-key","FFFFFF"],"last":["sh","-c","x --tls-key 'GG GG' --port 80"]}`
	expect.NoError(t, json.Unmarshal([]byte(text), &pod))
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

// A field with a secret is redacted, in JSON and in what remains of it. A field with the name of a Secret is not.
func TestFieldsHaveNoSecrets(t *testing.T) {
	for text, want := range map[string]string{
		`{"clientSecret":"S2","passwords":"S4","secret":"S1","tokens":["S3"],"privateKey":"S5"}`:                                       `{"clientSecret":"REDACTED","passwords":"REDACTED","privateKey":"REDACTED","secret":"REDACTED","tokens":["REDACTED"]}`,
		`{"authPasswordSecretRef":{"key":"md5","name":"tor"},"secretName":"tls","tokenSecret":{"name":"netbox"},"topologyKey":"zone"}`: `{"authPasswordSecretRef":{"key":"md5","name":"tor"},"secretName":"tls","tokenSecret":{"name":"netbox"},"topologyKey":"zone"}`,
		`{"msg":"asks {\"password\":\"S1 S2\"}"} and`:                                                                                  `{"msg":"asks {\"password\":REDACTED}"} and`,
		`{"password":"S1\"S2","level":1} and`:                                                                                          `{"password":REDACTED,"level":1} and`,
		`{"clientSecret":"S1 S2`:                                                                                                       `{"clientSecret":REDACTED`,
		`{"tokens":["S1","S2"],"level":1} and`:                                                                                         `{"tokens":REDACTED],"level":1} and`,
	} {
		if got := string((&redactor{}).file([]byte(text))); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// Labels and selectors keep names that elsewhere are names of fields that no answer needs.
func TestLabelsStayInAReport(t *testing.T) {
	text := `{"container":{"args":["x"],"lifecycle":{"preStop":{}}},"metadata":{"annotations":{"images":"x"},"labels":{"lifecycle":"spot"},"managedFields":[]},"nodeSelector":{"lifecycle":"spot"},"podSelector":{"matchLabels":{"lifecycle":"spot"}},"selector":{"volumes":"fast"}}`
	want := `{"container":{"args":["x"]},"metadata":{"annotations":{"images":"REDACTED"},"labels":{"lifecycle":"spot"}},"nodeSelector":{"lifecycle":"spot"},"podSelector":{"matchLabels":{"lifecycle":"spot"}},"selector":{"volumes":"fast"}}`
	if got := string((&redactor{}).file([]byte(text))); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
