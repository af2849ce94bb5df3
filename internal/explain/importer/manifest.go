package importer

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Manifest returns r as YAML for kubectl. Its comments have what people have to read and to do. product is
// the name of the other product for people, and key is its name in readAnnotations.
func (r Result) Manifest(product, key string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# PureLB's configuration in place of that of %s. Read the comments, then: kubectl apply -f FILE\n# Objects named default replace those of the chart.\n", product)
	comment(&b, "To look at:", r.Remarks)
	comment(&b, "Copy these Secrets into the namespace of PureLB, and name them in the chart value gobgp.passwordSecrets:", r.Secrets)
	comment(&b, fmt.Sprintf("kubectl purelb adopt sets these annotations, unless the chart value is readAnnotations={%s}:", key), r.Services)
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

// annotate returns the command that sets annotations of a Service.
func annotate(svc *corev1.Service, annotations map[string]string) string {
	var values []string
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		values = append(values, quote(name+"="+annotations[name]))
	}
	return fmt.Sprintf("kubectl annotate service -n %s %s %s", svc.Namespace, svc.Name, strings.Join(values, " "))
}

// quote returns text as one word of a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
