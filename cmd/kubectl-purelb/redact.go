package main

import (
	"encoding/json"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/explain"
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

// know records a secret text. It ignores very short texts, because they occur everywhere.
func (r *redactor) know(text string) {
	if len(text) >= 6 && !slices.Contains(r.secrets, text) {
		r.secrets = append(r.secrets, text)
	}
}

// secretWords match texts that look like secrets: a word such as "password" with its value, the
// value of an Authorization header, and the password in a URL.
var secretWords = []*regexp.Regexp{
	regexp.MustCompile(`(?i)((?:password|passwd|secret|token|api[-_]?key|credential)s?["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s,;}"']+)`),
	regexp.MustCompile(`(?i)((?:bearer|basic|token)\s+)([A-Za-z0-9._~+/=-]{8,})`),
	regexp.MustCompile(`(://)([^/\s@"']+@)`),
}

// text removes secrets from text.
func (r *redactor) text(text string) string {
	for _, s := range r.secrets {
		text = strings.ReplaceAll(text, s, redacted)
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

// value removes secrets from the value of a JSON key.
func (r *redactor) value(key string, v any) any {
	switch v := v.(type) {
	case string:
		if named := key + "=" + v; v != "" && r.text(named) == key+"="+redacted {
			return redacted
		}
		return r.text(v)
	case []any:
		for i := range v {
			v[i] = r.value(key, v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = r.value(k, v[k])
		}
	}
	return v
}

// world removes secrets from the objects of w, and also data that no answer needs.
func (r *redactor) world(w *explain.World) {
	r.names = namesIn(*w)
	for i := range w.Configurations {
		spec := &w.Configurations[i].Spec
		for j := range spec.Neighbors {
			r.password(&spec.Neighbors[j].Config.PeerConfig)
		}
		for j := range spec.PeerGroups {
			r.password(&spec.PeerGroups[j].Config.PeerConfig)
		}
		r.meta(&w.Configurations[i].ObjectMeta)
	}
	for i := range w.Pods {
		r.meta(&w.Pods[i].ObjectMeta)
		for j := range w.Pods[i].Spec.InitContainers {
			r.container(&w.Pods[i].Spec.InitContainers[j])
		}
		for j := range w.Pods[i].Spec.Containers {
			r.container(&w.Pods[i].Spec.Containers[j])
		}
		w.Pods[i].Spec.Volumes, w.Pods[i].Spec.EphemeralContainers = nil, nil
	}
	for i := range w.Nodes {
		r.meta(&w.Nodes[i].ObjectMeta)
		w.Nodes[i].Status.Images = nil
	}
	for i := range w.Services {
		r.meta(&w.Services[i].ObjectMeta)
	}
	for i := range w.Groups {
		r.meta(&w.Groups[i].ObjectMeta)
	}
	for i := range w.Agents {
		r.meta(&w.Agents[i].ObjectMeta)
	}
	for i := range w.Leases {
		r.meta(&w.Leases[i].ObjectMeta)
	}
	for i := range w.Namespaces {
		r.meta(&w.Namespaces[i].ObjectMeta)
	}
	for i := range w.EndpointSlices {
		r.meta(&w.EndpointSlices[i].ObjectMeta)
	}
	for i := range w.NodeStatuses {
		r.meta(&w.NodeStatuses[i].ObjectMeta)
	}
	for i := range w.Networks {
		r.meta(&w.Networks[i].ObjectMeta)
	}
	// The longest comes first, because one secret may begin with another.
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
}

// namesIn returns the names of nodes, Services and namespaces in w.
func namesIn(w explain.World) map[string]bool {
	names := map[string]bool{w.Namespace: true}
	for _, o := range w.Nodes {
		names[o.Name] = true
	}
	for _, o := range w.Services {
		names[o.Name], names[o.Namespace] = true, true
	}
	for _, o := range w.Namespaces {
		names[o.Name] = true
	}
	return names
}

func (r *redactor) password(c *bgpv1.PeerConfig) {
	if c.AuthPassword != "" {
		r.know(c.AuthPassword)
		c.AuthPassword = redacted
	}
}

// telling are prefixes of the annotations that answers need. The last applied manifest is not one
// of them, because it may contain every field of the object.
var telling = []string{"purelb.io/", "external-dns.kubernetes.io/hostname", "external-dns.alpha.kubernetes.io/hostname", "node.kubernetes.io/"}

// meta removes the managed fields and the annotations of other programs.
func (r *redactor) meta(m *metav1.ObjectMeta) {
	m.ManagedFields = nil
	for name, value := range m.Annotations {
		told := slices.ContainsFunc(telling, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		switch {
		case name == corev1.LastAppliedConfigAnnotation:
			delete(m.Annotations, name)
		case !told:
			m.Annotations[name] = redacted
		default:
			m.Annotations[name] = r.text(value)
		}
	}
}

// secretFields match names of fields with secret values. proseFields are names of fields with free
// text.
var (
	secretFields = regexp.MustCompile(`(?i)(password|passwd|token)$`)
	proseFields  = []string{"message", "lastError", "description", "url", "reason", "note"}
)

// tree removes secrets from a decoded JSON value. field is the name of the field that contains it.
func (r *redactor) tree(o any, field string) any {
	switch o := o.(type) {
	case map[string]any:
		for name, value := range o {
			o[name] = r.tree(value, name)
		}
	case []any:
		for i := range o {
			o[i] = r.tree(o[i], field)
		}
	case string:
		switch {
		case secretFields.MatchString(field) && o != "":
			return redacted
		case slices.Contains(proseFields, field):
			return r.text(o)
		}
		for _, s := range r.secrets {
			o = strings.ReplaceAll(o, s, redacted)
		}
		return o
	}
	return o
}

// secretFlag matches a flag whose value is the next argument.
var secretFlag = regexp.MustCompile(`(?i)^-.*(password|passwd|secret|token|key|credentials?)$`)

// container removes the values of variables that are not PureLB's, and secrets in arguments.
func (r *redactor) container(c *corev1.Container) {
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe, c.Lifecycle = nil, nil, nil, nil
	for i := range c.Env {
		ours := c.Env[i].Name == "DEFAULT_ANNOUNCER" || strings.HasPrefix(c.Env[i].Name, "PURELB_")
		if !ours && c.Env[i].Value != "" {
			if _, err := netip.ParseAddr(c.Env[i].Value); err != nil && !r.names[c.Env[i].Value] {
				r.know(c.Env[i].Value)
			}
			c.Env[i].Value = redacted
		}
	}
	for _, list := range [][]string{c.Args, c.Command} {
		for i := range list {
			if i+1 < len(list) && secretFlag.MatchString(list[i]) {
				list[i+1] = redacted
			}
			list[i] = r.text(list[i])
		}
	}
}
