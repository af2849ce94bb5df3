package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
)

// specs are the definitions in the schema of values, and the kinds whose specs they describe.
var specs = map[string]string{
	"serviceGroupSpec":     "ServiceGroup",
	"lbNodeAgentSpec":      "LBNodeAgent",
	"bgpConfigurationSpec": "BGPConfiguration",
}

// definition has the parts of a CustomResourceDefinition that the schema of values needs.
type definition struct {
	Spec struct {
		Names    struct{ Kind string }
		Versions []struct {
			Storage bool
			Schema  struct {
				OpenAPIV3Schema struct {
					Properties struct{ Spec map[string]any }
				} `yaml:"openAPIV3Schema"`
			}
		}
	}
}

// copySchemas writes the schemas of the specs of the stored versions into the file of values, so that
// Helm refuses a spec that the API server would refuse or shorten.
func copySchemas(definitions []definition, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for name, kind := range specs {
		for _, d := range definitions {
			for _, v := range d.Spec.Versions {
				if d.Spec.Names.Kind != kind || !v.Storage {
					continue
				}
				if text, err = replace(text, name, strict(v.Schema.OpenAPIV3Schema.Properties.Spec)); err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
			}
		}
	}
	return os.WriteFile(file, text, 0o644)
}

// keywords are those that mean the same for Helm and for the API server, and have no schema in them.
var keywords = []string{
	"type", "enum", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
}

// strict returns schema without rules in CEL and descriptions. A field that schema does not have is
// refused; the API server would drop it.
func strict(schema map[string]any) map[string]any {
	out := map[string]any{}
	for _, word := range keywords {
		if value, ok := schema[word]; ok {
			out[word] = value
		}
	}
	if schema["x-kubernetes-int-or-string"] == true {
		out["type"] = []any{"integer", "string"}
	}
	if items, ok := schema["items"].(map[string]any); ok {
		out["items"] = strict(items)
	}
	if values, ok := schema["additionalProperties"].(map[string]any); ok {
		out["additionalProperties"] = strict(values)
	}
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return out
	}
	fields := map[string]any{}
	for name, field := range properties {
		fields[name] = strict(field.(map[string]any))
	}
	out["properties"] = fields
	if schema["x-kubernetes-preserve-unknown-fields"] != true {
		out["additionalProperties"] = false
	}
	if required := needed(schema, properties); len(required) > 0 {
		out["required"] = required
	}
	return out
}

// needed returns the required properties that have no default.
func needed(schema, properties map[string]any) []any {
	required, _ := schema["required"].([]any)
	return slices.DeleteFunc(slices.Clone(required), func(name any) bool {
		_, has := properties[name.(string)].(map[string]any)["default"]
		return has
	})
}

// replace writes schema into the line of the definition with that name.
func replace(text []byte, name string, schema map[string]any) ([]byte, error) {
	line := regexp.MustCompile(`(?m)^(    "` + name + `": ).*?(,?)$`)
	if n := len(line.FindAll(text, -1)); n != 1 {
		return nil, fmt.Errorf("it has %d lines of the definition %s, want one", n, name)
	}
	var value bytes.Buffer
	encoder := json.NewEncoder(&value)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(schema); err != nil {
		return nil, err
	}
	return line.ReplaceAllFunc(text, func(old []byte) []byte {
		parts := line.FindSubmatch(old)
		return slices.Concat(parts[1], bytes.TrimSpace(value.Bytes()), parts[2])
	}), nil
}
