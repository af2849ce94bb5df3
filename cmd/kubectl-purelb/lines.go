package main

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	yamlnodes "go.yaml.in/yaml/v3"
)

// linesOf returns a function that returns the line of the field at a path in d, or of the nearest field around
// it. The function parses d in its first call.
func linesOf(d document) func(path string) int {
	parsed := sync.OnceValue(func() *yamlnodes.Node {
		var root yamlnodes.Node
		if yamlnodes.Unmarshal(d.text, &root) != nil || len(root.Content) == 0 {
			return &root
		}
		return root.Content[0]
	})
	return func(path string) int { return d.line - 1 + cmp.Or(lineOf(parsed(), path), 1) }
}

// lineOf returns the line of the field at path below n, or of the nearest field around it. It returns 0 if n has
// not even the first field of path.
func lineOf(n *yamlnodes.Node, path string) int {
	switch n.Kind {
	case yamlnodes.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			rest, begins := strings.CutPrefix(path, n.Content[i].Value)
			if begins && (rest == "" || strings.ContainsAny(rest[:1], ".[")) {
				return cmp.Or(lineOf(n.Content[i+1], strings.TrimPrefix(rest, ".")), n.Content[i].Line)
			}
		}
	case yamlnodes.SequenceNode:
		var at int
		if _, err := fmt.Sscanf(path, "[%d]", &at); err == nil && at < len(n.Content) {
			_, rest, _ := strings.Cut(path, "]")
			return cmp.Or(lineOf(n.Content[at], strings.TrimPrefix(rest, ".")), n.Content[at].Line)
		}
	}
	return 0
}
