package attest

import (
	"encoding/json"
	"maps"
	"slices"

	"purelb.io/purelb/release/internal/source"
)

// PayloadType is the media type of a signed statement.
const PayloadType = "application/vnd.in-toto+json"

// Build describes how a release was made.
type Build struct {
	Parameters map[string]any // what the user of "make release" chose
	Go         string         // version of the toolchain
	Builder    string         // who vouches for the build, as a URI
}

// Provenance is an in-toto statement with SLSA provenance for artifacts, given by their names and
// SHA-256 sums. It names no time and no machine, so that another build of the same sources gives
// the same statement.
func Provenance(t source.Tree, b Build, sums map[string]string) ([]byte, error) {
	var subject []any
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		subject = append(subject, map[string]any{"name": name, "digest": map[string]string{"sha256": sums[name]}})
	}
	text, err := json.MarshalIndent(map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       subject,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":          "https://github.com/purelb/purelb/blob/main/docs/release.md",
				"externalParameters": b.Parameters,
				"resolvedDependencies": []any{
					map[string]any{"uri": "git+https://github.com/purelb/purelb", "digest": map[string]string{"gitCommit": t.Revision}},
					map[string]any{"name": "go", "uri": "pkg:generic/go@" + b.Go},
				},
			},
			"runDetails": map[string]any{"builder": map[string]string{"id": b.Builder}},
		},
	}, "", " ")
	return append(text, '\n'), err
}
