package chart

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

// schema is a part of values.schema.json.
type schema struct {
	Description string
	Ref         string `json:"$ref"`
	Properties  map[string]schema
	Definitions map[string]schema
}

// each calls f for each value that s describes, with its path.
func (s schema) each(path string, definitions map[string]schema, f func(path string, s schema)) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		value := s.Properties[name]
		f(path+name, value)
		if strings.HasSuffix(value.Ref, "Spec") {
			continue // "kubectl explain" describes the fields
		}
		if value.Ref != "" {
			value = definitions[strings.TrimPrefix(value.Ref, "#/definitions/")]
		}
		value.each(path+name+".", definitions, f)
	}
}

// Editors and catalogs of charts show what the schema says of a value.
func TestTheSchemaDescribesEachValue(t *testing.T) {
	var all schema
	expect.NoError(t, json.Unmarshal([]byte(apitest.Text(t, "charts/purelb/values.schema.json")), &all))
	said := comments(t)
	n := 0
	all.each("", all.Definitions, func(path string, s schema) {
		n++
		if s.Description == "" {
			t.Errorf("the schema does not describe %s", path)
		}
		if comment, ok := said[path]; ok && s.Description != comment {
			t.Errorf("the schema says of %s\n  %s\nand values.yaml\n  %s", path, s.Description, comment)
		}
	})
	if n < 100 || len(said) < 100 {
		t.Errorf("the schema has %d values, and values.yaml %d comments", n, len(said))
	}
}

var (
	commentLine = regexp.MustCompile(`^ *# ?(.*)$`)
	keyLine     = regexp.MustCompile(`^((?:  )*)([A-Za-z0-9]+):`)
	example     = regexp.MustCompile(` ?(For example|@default) .*$`)
)

// comments returns the comment above each key of values.yaml, by the path of the key, without
// its example. README.md has the comments that begin with "--".
func comments(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	var path, comment []string
	for line := range strings.Lines(apitest.Text(t, "charts/purelb/values.yaml")) {
		line = strings.TrimRight(line, "\n")
		if m := commentLine.FindStringSubmatch(line); m != nil {
			comment = append(comment, m[1])
			continue
		}
		if m := keyLine.FindStringSubmatch(line); m != nil {
			path = append(path[:min(len(path), len(m[1])/2)], m[2])
			words := strings.Join(strings.Fields(strings.Join(comment, " ")), " ")
			found[strings.Join(path, ".")] = strings.TrimPrefix(example.ReplaceAllString(words, ""), "-- ")
		}
		comment = nil
	}
	return found
}
