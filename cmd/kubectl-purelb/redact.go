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

// redacted stands where something was taken out.
const redacted = "REDACTED"

// redactor takes secrets out of a report: passwords, tokens, and what people wrote for other
// programs than PureLB. A text that is secret in one place is taken out everywhere.
type redactor struct {
	secrets []string
	// names are the names of objects in the report. They are never secret: without them the
	// report answers nothing.
	names map[string]bool
}

// know notes that text is secret. Very short ones would be found everywhere.
func (r *redactor) know(text string) {
	if len(text) >= 6 && !slices.Contains(r.secrets, text) {
		r.secrets = append(r.secrets, text)
	}
}

// secretWords match what looks like a secret in a text: a word for one with its value, the
// password in a URL, and what stands in an Authorization header.
var secretWords = []*regexp.Regexp{
	regexp.MustCompile(`(?i)((?:password|passwd|secret|token|api[-_]?key|credential)s?["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s,;}"']+)`),
	regexp.MustCompile(`(?i)((?:bearer|basic|token)\s+)([A-Za-z0-9._~+/=-]{8,})`),
	regexp.MustCompile(`(://)([^/\s@"']+@)`),
}

// text takes secrets out of text.
func (r *redactor) text(text string) string {
	for _, s := range r.secrets {
		text = strings.ReplaceAll(text, s, redacted)
	}
	for _, words := range secretWords {
		text = words.ReplaceAllString(text, "${1}"+redacted)
	}
	return text
}

// file takes secrets out of the text of a file. JSON stays JSON: in its texts a quotation mark
// is written as two characters, which hides secrets.
func (r *redactor) file(text []byte) []byte {
	var all any
	if json.Unmarshal(text, &all) == nil {
		if clean, err := json.Marshal(r.value("", all)); err == nil {
			return clean
		}
	}
	return []byte(r.text(string(text)))
}

// value takes secrets out of the value of a key of JSON.
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

// world takes secrets out of the objects of w, and also what no answer depends on.
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
	// One secret may begin like another.
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
}

// namesIn are the names of nodes, Services and namespaces in w.
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

// telling are prefixes of the annotations that answers depend on. The annotation with the last
// applied manifest is not among them: it may contain every field of the object.
var telling = []string{"purelb.io/", "external-dns.kubernetes.io/hostname", "external-dns.alpha.kubernetes.io/hostname", "node.kubernetes.io/"}

// meta takes out annotations of other programs, and who changed what.
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

// secretFields are the names of fields whose value is a secret, and proseFields of those
// that people and programs write prose into.
var (
	secretFields = regexp.MustCompile(`(?i)(password|passwd|token)$`)
	proseFields  = []string{"message", "lastError", "description", "url", "reason", "note"}
)

// tree takes secrets out of an object as JSON has it. Field is the name of the field that
// it is in.
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

// container takes out the values of the environment that PureLB does not know, and what
// other programs than PureLB are told.
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
