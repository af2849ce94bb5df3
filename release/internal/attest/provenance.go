package attest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"purelb.io/purelb/release/internal/source"
)

const (
	predicate = "https://slsa.dev/provenance/v1"
	// PayloadType is the media type of a signed statement.
	PayloadType = "application/vnd.in-toto+json"
)

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
	parameters, err := structpb.NewStruct(b.Parameters)
	if err != nil {
		return nil, err
	}
	p := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType:          "https://github.com/purelb/purelb/blob/main/docs/release.md",
			ExternalParameters: parameters,
			ResolvedDependencies: []*intoto.ResourceDescriptor{
				{Uri: "git+https://github.com/purelb/purelb", Digest: map[string]string{"gitCommit": t.Revision}},
				{Name: "go", Uri: "pkg:generic/go@" + b.Go, Digest: nil},
			},
		},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: b.Builder}},
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("provenance: %w", err)
	}
	text, err := stable(p)
	if err != nil {
		return nil, err
	}
	fields := &structpb.Struct{}
	if err := protojson.Unmarshal(text, fields); err != nil {
		return nil, err
	}
	s := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: predicate, Predicate: fields}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		s.Subject = append(s.Subject, &intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": sums[name]}})
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("provenance: %w", err)
	}
	return stable(s)
}

// stable returns m as JSON. The spaces in the library's output vary from program to program.
func stable(m proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = json.Indent(&b, text, "", " ")
	b.WriteByte('\n')
	return b.Bytes(), err
}
