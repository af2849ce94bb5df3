package speaker

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"purelb.io/purelb/internal/bgp/intent"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/testing/expect"
)

const secretly = `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001, authPasswordSecretRef: {name: bgp, key: password}}}]}`

// stores makes the speaker store its input in this file.
func stores(memory string, more ...func(*world)) func(*world) {
	return func(w *world) {
		w.speaker.Memory = memory
		for _, change := range more {
			change(w)
		}
	}
}

// hush is the Secret of secretly.
func hush(w *world) {
	w.cluster.snapshot.Secrets = map[string]peering.Secret{"bgp": {Known: true, Exists: true, Data: map[string][]byte{"password": []byte("hush")}}}
}

// away makes the API server unreachable.
func away(w *world) { w.cluster.missing = true }

func TestAStartWithoutTheAPIServerUsesTheStoredInput(t *testing.T) {
	memory := t.TempDir() + "/input.json"
	inWorld(t, secretly, stores(memory, hush), func(w *world) {
		expect.Equal(t, "sessions", w.server.String(), sessions1+" md5 hush")
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "", memory)
		away(w)
		w.start()
		atOnce()
		expect.Equal(t, "sessions at once", w.server.String(), "")
		pass(5 * time.Second)
		expect.Equal(t, "sessions after a while", w.server.String(), sessions1+" md5 hush")
		w.sees(func(*intent.Snapshot) {})
		expect.Equal(t, "sessions when the API server has no configuration", w.server.String(), "stopped, graceful false")
		if err := w.end(); err != nil {
			t.Error(err)
		}
	})
	inWorld(t, "", stores(memory, away), func(w *world) {
		pass(5 * time.Second)
		expect.Equal(t, "sessions of the next process", w.server.String(), "stopped, graceful false")
	})
	info, err := os.Stat(memory)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, %v; want 0600", info.Mode(), err)
	}
}

// The API server answers before the speaker uses its stored input.
func TestARestartWithoutASecretKeepsThePassword(t *testing.T) {
	for name, tt := range map[string]struct {
		now  peering.Secret
		says []string // in the conditions of the node
	}{
		"the Secret is gone":  {now: peering.Secret{Known: true}},
		"no right to read it": {now: peering.Secret{Forbidden: true}, says: []string{"add bgp to gobgp.passwordSecrets", "the password that was there before is in use"}},
	} {
		t.Run(name, func(t *testing.T) {
			memory := t.TempDir() + "/input.json"
			inWorld(t, secretly, stores(memory, hush), func(*world) {})
			inWorld(t, secretly, stores(memory, func(w *world) { w.cluster.snapshot.Secrets = map[string]peering.Secret{"bgp": tt.now} }), func(w *world) {
				expect.Equal(t, "sessions", w.server.String(), sessions1+" md5 hush")
				for _, text := range tt.says {
					expect.Contains(t, "conditions", w.reports.conditions(), text)
				}
			})
		})
	}
}

func TestAnInvalidStoredInputIsIgnored(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"damaged", `{"Version":1,"Input":{"Passwords":{"a/b":"hush"}`, "is damaged"},
		{"of another version", `{"Version":0,"Input":{"Node":{"Name":"node-a"}}}`, "is of version 0"},
		{"of another node", `{"Version":1,"Input":{"Node":{"Name":"node-b"}}}`, "of node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inWorld(t, "", func(w *world) {
				expect.NoError(t, os.WriteFile(w.memory, []byte(tt.text), 0o600))
				w.cluster.missing = true
			}, func(w *world) {
				pass(5 * time.Second)
				expect.Equal(t, "sessions", w.server.String(), "")
				if log := w.log.String(); !strings.Contains(log, tt.want) || strings.Contains(log, "hush") {
					t.Errorf("the log is %s", log)
				}
				w.edit(oneNeighbor)
				expect.Equal(t, "sessions when the cluster is known", w.server.String(), sessions1)
			})
		})
	}
}

func TestAWrongConfigurationAtAStartKeepsTheStoredOne(t *testing.T) {
	memory := t.TempDir() + "/input.json"
	inWorld(t, oneNeighbor, stores(memory), func(*world) {})
	inWorld(t, strings.ReplaceAll(oneNeighbor, "asn: 65000", "asn: 0"), stores(memory), func(w *world) {
		expect.Equal(t, "sessions", w.server.String(), sessions1)
		expect.Contains(t, "conditions", w.reports.conditions(), "spec.global.asn")
	})
}
