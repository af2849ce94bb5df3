package importer

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"
)

// Manifest returns r as YAML for kubectl. Its comments have what people have to read and to do. product is
// the name of the other product for people, and key is its name in readAnnotations.
func (r Result) Manifest(product, key string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# PureLB's configuration in place of that of %s. Read the comments, then: kubectl apply -f FILE\n# Objects named default replace those of the chart.\n", product)
	remarks := lines(r.Remarks, func(m Remark) string { return m.Object + " " + m.Text })
	comment(&b, "To look at:", remarks)
	secrets := lines(r.Secrets, func(s Secret) string { return s.Namespace + "/" + s.Name })
	comment(&b, "Copy these Secrets into the namespace of PureLB, and name them in the chart value gobgp.passwordSecrets:", secrets)
	comment(&b, fmt.Sprintf("kubectl purelb adopt sets these annotations, unless the chart value is readAnnotations={%s}:", key), lines(r.Services, annotate))
	var objects []any
	for _, g := range r.Groups {
		objects = append(objects, g)
	}
	for _, a := range r.Agents {
		objects = append(objects, a)
	}
	if r.BGP != nil {
		objects = append(objects, r.BGP)
	}
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "---\n%s", text)
	}
	return b.Bytes(), nil
}

// comment writes lines below a title, if there are any.
func comment(b *bytes.Buffer, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "#\n# %s\n", title)
	for _, line := range lines {
		fmt.Fprintf(b, "#   %s\n", strings.Map(printable, line))
	}
}

// printable replaces what ends a comment of YAML. Lines have texts of users, such as annotations of Services,
// and must not add an object to the manifest.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

func lines[T any](all []T, line func(T) string) []string {
	var texts []string
	for _, one := range all {
		texts = append(texts, line(one))
	}
	return texts
}

// annotate returns the command that sets the annotations of a Service.
func annotate(s Annotated) string {
	var values []string
	for _, name := range slices.Sorted(maps.Keys(s.Annotations)) {
		values = append(values, quote(name+"="+s.Annotations[name]))
	}
	return fmt.Sprintf("kubectl annotate service -n %s %s %s", s.Namespace, s.Name, strings.Join(values, " "))
}

// quote returns text as one word of a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
