package speaker

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"purelb.io/purelb/internal/intent"
	"purelb.io/purelb/internal/peering"
)

func TestAStartWithoutTheAPIServerUsesTheStoredInput(t *testing.T) {
	const secretly = `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001, authPasswordSecretRef: {name: bgp, key: password}}}]}`
	memory := t.TempDir() + "/input.json"
	synctest.Test(t, func(t *testing.T) {
		before := newWorld(t, secretly, memory)
		before.cluster.snapshot.Secrets = map[string]peering.Secret{"bgp": {Known: true, Exists: true, Data: map[string][]byte{"password": []byte("hush")}}}
		before.start()
		settle()
		want(t, "sessions", before.server.String(), sessions1+" md5 hush")
		if err := before.end(); err != nil {
			t.Fatal(err)
		}

		w := newWorld(t, "", memory)
		w.cluster.missing = true
		w.start()
		atOnce()
		want(t, "sessions at once", w.server.String(), "")
		pass(5 * time.Second)
		want(t, "sessions after a while", w.server.String(), sessions1+" md5 hush")
		w.cluster.change(func(*intent.Snapshot) {})
		settle()
		want(t, "sessions when the API server has no configuration", w.server.String(), "stopped, graceful false")
		if err := w.end(); err != nil {
			t.Fatal(err)
		}

		again := newWorld(t, "", memory)
		again.cluster.missing = true
		again.start()
		pass(5 * time.Second)
		want(t, "sessions of the next process", again.server.String(), "stopped, graceful false")
		if err := again.end(); err != nil {
			t.Fatal(err)
		}
	})
	info, err := os.Stat(memory)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, %v; want 0600", info.Mode(), err)
	}
}

// The API server answers before the speaker uses its stored input.
func TestARestartWithoutASecretKeepsThePassword(t *testing.T) {
	const secretly = `{global: {asn: 65000}, neighbors: [{config: {neighborAddress: 192.0.2.1, peerAsn: 65001, authPasswordSecretRef: {name: bgp, key: password}}}]}`
	for name, tt := range map[string]struct {
		now  peering.Secret
		says []string // in the conditions of the node
	}{
		"the Secret is gone":  {now: peering.Secret{Known: true}},
		"no right to read it": {now: peering.Secret{Forbidden: true}, says: []string{"add bgp to gobgp.passwordSecrets", "the password that was there before is in use"}},
	} {
		memory := t.TempDir() + "/input.json"
		run := func(t *testing.T, secret peering.Secret, check func(w *world)) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, secretly, memory)
				w.cluster.snapshot.Secrets = map[string]peering.Secret{"bgp": secret}
				w.start()
				settle()
				check(w)
				if err := w.end(); err != nil {
					t.Fatal(err)
				}
			})
		}
		t.Run(name, func(t *testing.T) {
			run(t, peering.Secret{Known: true, Exists: true, Data: map[string][]byte{"password": []byte("hush")}}, func(*world) {})
			run(t, tt.now, func(w *world) {
				want(t, "sessions", w.server.String(), sessions1+" md5 hush")
				for _, text := range tt.says {
					if c := w.reports.conditions(); !strings.Contains(c, text) {
						t.Errorf("the conditions are %s, want %q in them", c, text)
					}
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
				if err := os.WriteFile(w.memory, []byte(tt.text), 0o600); err != nil {
					t.Fatal(err)
				}
				w.cluster.missing = true
			}, func(w *world) {
				pass(5 * time.Second)
				want(t, "sessions", w.server.String(), "")
				if log := w.logged(); !strings.Contains(log, tt.want) || strings.Contains(log, "hush") {
					t.Errorf("the log is %s", log)
				}
				w.edit(oneNeighbor)
				want(t, "sessions when the cluster is known", w.server.String(), sessions1)
			})
		})
	}
}

func TestAWrongConfigurationAtAStartKeepsTheStoredOne(t *testing.T) {
	memory := t.TempDir() + "/input.json"
	synctest.Test(t, func(t *testing.T) {
		before := newWorld(t, oneNeighbor, memory)
		before.start()
		settle()
		if err := before.end(); err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, strings.ReplaceAll(oneNeighbor, "asn: 65000", "asn: 0"), memory)
		w.start()
		settle()
		want(t, "sessions", w.server.String(), sessions1)
		contains(t, "conditions", w.reports.conditions(), "spec.global.asn")
		if err := w.end(); err != nil {
			t.Fatal(err)
		}
	})
}
