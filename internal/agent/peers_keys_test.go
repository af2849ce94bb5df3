package agent

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestKeysAreReadALineEach(t *testing.T) {
	const a, b = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "AQEBAQEBAQEBAQEBAQEBAQ=="
	for _, tt := range []struct{ name, text, want string }{
		{"one key", a, "[32] <nil>"},
		{"the new one and the one that everybody has still", "\n" + b + "\n\n  " + a + "\n", "[16 32] <nil>"},
		{"nothing", "\n", `[] there is no "key" in it`},
		{"no base64", a + "\nsecret!", `[] line 2 of "key" is not the base64 of 16, 24 or 32 bytes`},
		{"too short", "AAAA", `[] line 1 of "key" is not the base64 of 16, 24 or 32 bytes`},
	} {
		keys, err := parseKeys(&corev1.Secret{Data: map[string][]byte{"key": []byte(tt.text)}})
		sizes := []int{}
		for _, k := range keys {
			sizes = append(sizes, len(k))
		}
		want(t, tt.name, fmt.Sprint(sizes, " ", err), tt.want)
	}
}
