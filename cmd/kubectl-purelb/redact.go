package main

import (
	"encoding/json"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// redacted replaces each removed text.
const redacted = "REDACTED"

// redactor removes secrets from a report: passwords, tokens, and texts for programs other than
// PureLB. A text that is secret in one place is removed everywhere.
type redactor struct {
	secrets []string
	// names are the names of objects in the report. They are never secret, because the report is
	// useless without them.
	names map[string]bool
}

// know records a secret text. It ignores very short texts, because they occur everywhere, and addresses.
func (r *redactor) know(text string) {
	if _, err := netip.ParseAddr(text); err == nil || len(text) < 6 || text == redacted || r.names[text] || slices.Contains(r.secrets, text) {
		return
	}
	r.secrets = append(r.secrets, text)
	// The longest comes first, because one secret may begin with another.
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
}

// secretName matches the end of a name whose value is secret.
const secretName = `(?:password|passwd|secret|token|credential|(?:api|auth|access|private|secret)[-_]?key)s?`

var (
	// secretWords match texts that look like secrets: a word such as "password" with its value, the
	// value of an Authorization header, and the password in a URL.
	secretWords = []*regexp.Regexp{
		regexp.MustCompile(`(?i)(` + secretName + `\\*["']?\s*[:=]\s*)(\\+"[^"]*"|"(?:[^"\\]|\\.)*"|'[^']*'|\\*["'].*|\[[^\]\n]*|[^\s,;}"']+)`),
		regexp.MustCompile(`(?i)((?:bearer|basic|token)\s+)([A-Za-z0-9._~+/=-]{8,})`),
		regexp.MustCompile(`(://)([^/\s@"']+@)`),
		secretFlags,
	}
	// secretFlag matches a flag whose value is the next argument, and secretFlags those in a text, with their values.
	secretFlag  = regexp.MustCompile(`(?i)^-.*(password|passwd|secret|token|key|credentials?)$`)
	secretFlags = regexp.MustCompile(`(?i)((?:^|\s)--?[\w.-]*(?:password|passwd|secret|token|key|credentials?)(?:=|\s+))("[^"]*"|'[^']*'|\S+)`)
	// secretFields match the names of fields with secret values. A field such as secretName has the name of a Secret.
	secretFields = regexp.MustCompile(`(?i)` + secretName + `$`)
)

// text removes secrets from text.
func (r *redactor) text(text string) string {
	for _, s := range r.secrets {
		text = strings.ReplaceAll(text, s, redacted)
	}
	if !strings.ContainsAny(text, ":= ") { // Most values of objects are one word, and there are many.
		return text
	}
	for _, words := range secretWords {
		text = words.ReplaceAllString(text, "${1}"+redacted)
	}
	return text
}

// file removes secrets from the text of a file. It decodes JSON first: JSON escapes quotation
// marks, and secretWords would not match there. JSON remains JSON.
func (r *redactor) file(text []byte) []byte {
	var all any
	if json.Unmarshal(text, &all) == nil {
		if clean, err := json.Marshal(r.value("", all)); err == nil {
			return clean
		}
	}
	return []byte(r.text(string(text)))
}

// unneeded are the fields of objects that no answer needs, and that may contain anything.
var unneeded = []string{"managedFields", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "volumes", "ephemeralContainers", "images"}

// freeNames are fields with keys that people choose, which may be the names of other fields.
var freeNames = []string{"labels", "annotations", "matchLabels", "selector", "nodeSelector"}

// value removes secrets from the value of a field.
func (r *redactor) value(field string, v any) any {
	switch v := v.(type) {
	case string:
		if secretFields.MatchString(field) && v != "" {
			r.know(v)
			return redacted
		}
		return r.text(v)
	case []any:
		for i := range v {
			argument, _ := v[i].(string)
			if field == "args" || field == "command" {
				for _, flag := range secretFlags.FindAllStringSubmatch(argument, -1) {
					r.know(strings.Trim(flag[2], `"'`))
				}
			}
			if i+1 < len(v) && secretFlag.MatchString(argument) {
				if secret, is := v[i+1].(string); is {
					r.know(secret)
					v[i+1] = redacted
				}
			}
			v[i] = r.value(field, v[i])
		}
	case map[string]any:
		if value, is := v["value"].(string); is && field == "env" && !ours(v["name"]) {
			r.know(value)
			v["value"] = redacted
		}
		for name := range v {
			foreign := field == "annotations" && !slices.ContainsFunc(telling, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
			switch {
			case slices.Contains(unneeded, name) && !slices.Contains(freeNames, field) || name == corev1.LastAppliedConfigAnnotation:
				delete(v, name)
			case foreign:
				v[name] = redacted
			default:
				v[name] = r.value(name, v[name])
			}
		}
	}
	return v
}

// telling are prefixes of the annotations that answers need. The last applied manifest is not one
// of them, because it may contain every field of the object.
var telling = []string{"purelb.io/", "external-dns.kubernetes.io/hostname", "external-dns.alpha.kubernetes.io/hostname", "node.kubernetes.io/"}

// ours reports whether a variable is PureLB's.
func ours(name any) bool {
	text, _ := name.(string)
	return text == "DEFAULT_ANNOUNCER" || strings.HasPrefix(text, "PURELB_")
}

// objects removes secrets from objects.
func (r *redactor) objects(all []map[string]any) {
	r.names = map[string]bool{}
	for _, o := range all {
		meta, _ := o["metadata"].(map[string]any)
		for _, field := range []string{"name", "namespace"} {
			name, _ := meta[field].(string)
			r.names[name] = true
		}
	}
	for range 2 { // An object may have a secret that a later object shows to be one.
		for _, o := range all {
			r.value("", o)
		}
	}
}
