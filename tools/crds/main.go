// Command crds makes custom resource definitions small, because what controller-gen writes is larger
// than what `kubectl apply` and some tools can store. It also says who upgrades them, and copies their
// schemas into the schema of a chart's values.
//
//	crds FOLDER SCHEMA
//
// It rewrites each YAML file of the folder. Only the stored version keeps its descriptions, which
// `kubectl explain` shows. No line is folded, and a mapping without nested ones takes one line.
//
// Helm upgrades only objects whose metadata name the release. It installs the folder crds of a chart
// as it is. So each definition names the release purelb in the namespace purelb-system, which the
// manual uses. The annotation purelb.io/schema is a sum of the spec, so that the chart sees which
// definition a cluster has.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crds:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: crds FOLDER SCHEMA")
	}
	files, err := filepath.Glob(filepath.Join(args[0], "*.yaml"))
	if err != nil {
		return err
	}
	definitions := make([]definition, len(files))
	for i, file := range files {
		if definitions[i], err = rewrite(file); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return copySchemas(definitions, args[1])
}

// rewrite makes the definition in a file small, and returns it as it was.
func rewrite(file string) (whole definition, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return whole, err
	}
	var document yaml.Node
	if err := errors.Join(yaml.Unmarshal(text, &document), yaml.Unmarshal(text, &whole)); err != nil {
		return whole, err
	}
	crd := document.Content[0]
	compact(crd, lineWidth)
	for _, version := range get(get(crd, "spec"), "versions").Content {
		if get(version, "storage").Value != "true" {
			removeDescriptions(version)
			compact(version, unreadWidth)
		}
	}
	spec, err := encode(get(crd, "spec"))
	if err != nil {
		return whole, err
	}
	own(get(crd, "metadata"), fmt.Sprintf("%x", sha256.Sum256(spec))[:12])
	out, err := encode(crd)
	if err != nil {
		return whole, err
	}
	return whole, os.WriteFile(file, append([]byte("---\n"), out...), 0o644)
}

func encode(n *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	err := encoder.Encode(n)
	return out.Bytes(), err
}

// own adds what Helm reads in the metadata of a definition.
func own(metadata *yaml.Node, sum string) {
	annotations := get(metadata, "annotations")
	for _, pair := range [][2]string{
		{"helm.sh/resource-policy", "keep"},
		{"meta.helm.sh/release-name", "purelb"},
		{"meta.helm.sh/release-namespace", "purelb-system"},
		{"purelb.io/schema", sum},
	} {
		annotations.Content = append(annotations.Content, text(pair[0]), text(pair[1]))
	}
	labels := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{text("app.kubernetes.io/managed-by"), text("Helm")}}
	metadata.Content = append(metadata.Content, text("labels"), labels)
}

func text(s string) *yaml.Node {
	n := &yaml.Node{}
	n.SetString(s)
	return n
}

// get returns the value of a key of a mapping.
func get(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return &yaml.Node{}
}

// removeDescriptions removes the descriptions in n. A property that is called description is not a
// text.
func removeDescriptions(n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		for i := len(n.Content) - 2; i >= 0; i -= 2 {
			if isDescription(n.Content[i], n.Content[i+1]) {
				n.Content = slices.Delete(n.Content, i, i+2)
			}
		}
	}
	for _, child := range n.Content {
		removeDescriptions(child)
	}
}

func isDescription(key, value *yaml.Node) bool {
	return key.Value == "description" && value.Kind == yaml.ScalarNode
}

// lineWidth is how many characters of texts a line has at most, unless it is one item: that of the
// longest rules. unreadWidth is the same in a version without descriptions, which is only for programs.
const lineWidth, unreadWidth = 900, 40_000

// compact joins the lines of each paragraph of the descriptions in n, and writes n on one line if it
// has no description and at most widest characters, or has only scalars, or one item. It returns how
// many characters of texts the line has, or 0 if n has more lines.
func compact(n *yaml.Node, widest int) (width int) {
	if n.Kind == yaml.ScalarNode {
		if strings.Contains(n.Value, "'") && !strings.ContainsAny(n.Value, "\"\\\n") {
			n.Style = yaml.DoubleQuotedStyle // single quotes would be doubled
		}
		return len(n.Value) + 1
	}
	flat, simple := true, len(n.Content) > 0
	for i, child := range n.Content {
		w := compact(child, widest)
		flat, simple = flat && w > 0, simple && child.Kind == yaml.ScalarNode
		width += w
		if n.Kind == yaml.MappingNode && i%2 == 1 && isDescription(n.Content[i-1], child) {
			child.Value, child.Style = paragraphs(child.Value), 0
			flat = false
		}
	}
	one := n.Kind == yaml.SequenceNode && len(n.Content) == 1
	if !flat || !simple && !one && width > widest {
		return 0
	}
	n.Style = yaml.FlowStyle
	return width
}

// lineEnd is the end of a line inside a paragraph: the next line is no item of a list.
var lineEnd = regexp.MustCompile(`([^\n])\n([^-\s])`)

// paragraphs joins the lines of each paragraph of text.
func paragraphs(text string) string { return lineEnd.ReplaceAllString(text, "$1 $2") }
