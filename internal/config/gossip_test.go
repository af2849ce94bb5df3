package config

import (
	"fmt"
	"testing"
)

func TestGossipKeysAreReadFromLines(t *testing.T) {
	const a, b = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "AQEBAQEBAQEBAQEBAQEBAQ=="
	for _, tt := range []struct{ name, text, want string }{
		{"one key", a, "[32] <nil>"},
		{"the new key and the one that all agents still have", "\n" + b + "\n\n  " + a + "\n", "[16 32] <nil>"},
		{"nothing", "\n", `[] there is no "key" in it`},
		{"no base64", a + "\nsecret!", `[] line 2 of "key" is not the base64 of 16, 24 or 32 bytes`},
		{"too short", "AAAA", `[] line 1 of "key" is not the base64 of 16, 24 or 32 bytes`},
	} {
		keys, err := GossipKeys(map[string][]byte{"key": []byte(tt.text)})
		sizes := []int{}
		for _, k := range keys {
			sizes = append(sizes, len(k))
		}
		if got := fmt.Sprint(sizes, " ", err); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestGossipSecretReadsBack(t *testing.T) {
	const key = "the key of the gossip is secret!"
	keys, err := GossipKeys(GossipSecret([]byte(key)))
	if got := fmt.Sprintf("%s %v", keys, err); got != "["+key+"] <nil>" {
		t.Errorf("got %s", got)
	}
}
