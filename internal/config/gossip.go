package config

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// gossipKeys is the entry of the Secret with the keys of the agents' gossip, one
// per line, in base64. The first key encrypts, and all keys decrypt.
const gossipKeys = "key"

// GossipSecret returns the data of a Secret with one key.
func GossipSecret(key []byte) map[string][]byte {
	return map[string][]byte{gossipKeys: []byte(base64.StdEncoding.EncodeToString(key))}
}

// GossipKeys reads the keys in the data of a Secret.
func GossipKeys(data map[string][]byte) ([][]byte, error) {
	var keys [][]byte
	for line := range strings.Lines(string(data[gossipKeys])) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(key) != 16 && len(key) != 24 && len(key) != 32 {
			return nil, fmt.Errorf("line %d of %q is not the base64 of 16, 24 or 32 bytes", len(keys)+1, gossipKeys)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("there is no %q in it", gossipKeys)
	}
	return keys, nil
}
