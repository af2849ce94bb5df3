package main

import (
	"fmt"
	"strings"

	yamlnodes "go.yaml.in/yaml/v3"

	"purelb.io/purelb/internal/explain"
)

// origin returns the place of the object at path in d, with the lines of its fields.
func (d document) origin(path string) explain.Origin {
	o := explain.Origin{File: d.file, Line: d.line, Lines: map[string]int{}}
	var root yamlnodes.Node
	if yamlnodes.Unmarshal(d.text, &root) != nil {
		return o
	}
	all := map[string]int{}
	d.note(&root, "", all)
	if path == "" {
		o.Lines = all
		return o
	}
	for field, line := range all {
		if rest, inside := strings.CutPrefix(field, path+"."); inside {
			o.Lines[rest] = line
		}
	}
	if line, ok := all[path]; ok {
		o.Line = line
	}
	return o
}

// note notes the lines of all fields below n, which is at path.
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
