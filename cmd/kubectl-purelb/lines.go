package main

import (
	"fmt"
	"strings"
	"sync"

	yamlnodes "go.yaml.in/yaml/v3"
)

// linesOf returns a function that returns the line of each field of d, by path. The function
// parses d in its first call.
func linesOf(d document) func() map[string]int {
	return sync.OnceValue(func() map[string]int {
		lines := map[string]int{}
		var root yamlnodes.Node
		if yamlnodes.Unmarshal(d.text, &root) == nil {
			d.note(&root, "", lines)
		}
		return lines
	})
}

// note adds the lines of all fields below n. path is the path of n.
func (d document) note(n *yamlnodes.Node, path string, lines map[string]int) {
	switch n.Kind {
	case yamlnodes.DocumentNode:
		for _, c := range n.Content {
			d.note(c, path, lines)
		}
	case yamlnodes.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			at := strings.TrimPrefix(path+"."+n.Content[i].Value, ".")
			lines[at] = d.line + n.Content[i].Line - 1
			d.note(n.Content[i+1], at, lines)
		}
	case yamlnodes.SequenceNode:
		for i, c := range n.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			lines[at] = d.line + c.Line - 1
			d.note(c, at, lines)
		}
	}
}
