package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kubejson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/nodes/lease"
)

// loader collects the objects of documents.
type loader struct {
	// w has the namespace of PureLB, unless find is to find it.
	w inventory
	// pending are the objects to read, in their order.
	pending []pending
	// judges says to judge objects as an API server does, which refuses some.
	judges bool
	// notes are about files of folders that are left out.
	notes []string
}

// pending is an object to read.
type pending struct {
	head
	place explain.Origin
	text  []byte
	kind  kind
}

// world reads the pending objects, and returns the result.
func (l *loader) world() explain.World {
	last := map[explain.Object]int{}
	for i, p := range l.pending {
		last[l.name(p)] = i
	}
	for i, p := range l.pending {
		o := l.name(p)
		if other := last[o]; other != i {
			l.w.Origins[o] = l.pending[other].place
			l.mistake(o, "", fmt.Sprintf("this object is at %s too; PureLB sees only the one that is applied last, and this one is assumed to be the last", p.place.At("")))
			continue
		}
		l.w.Origins[o] = p.place
		known := len(l.w.Mistakes)
		err := l.defined(&p, o)
		if err == nil {
			err = l.decode(p, o)
		}
		if err != nil && len(l.w.Mistakes) == known {
			at, text := wrongType(err)
			l.mistake(o, at, text)
		}
		if p.Metadata.Namespace == "" && o.Namespace != "" {
			l.guess(o, explain.FieldNamespace, "the plugin assumes namespace "+o.Namespace)
		}
	}
	for i := range l.w.Services {
		l.complete(&l.w.Services[i])
	}
	l.w.settle()
	newest(&l.w.World)
	l.w.missing()
	return l.w.World
}

// head has the fields that every object has.
type head struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metav1.ObjectMeta `json:"metadata"`
	Items           []json.RawMessage `json:"items"`
}

// read reads one document. It fails if the document is not YAML. Of a folder, it leaves out what is
// no manifest.
func (l *loader) read(d document) error {
	text, err := yaml.YAMLToJSONStrict(d.text)
	template := bytes.Contains(d.text, []byte("{{"))
	switch {
	case err != nil && template && d.found && !mentions.Match(d.text):
		l.notes = append(l.notes, d.file+" is left out, because it is a template")
		return nil
	case err != nil && template:
		return fmt.Errorf(`%w; if it is a template, give the output of "helm template" instead`, d.fault(err))
	case err != nil:
		return d.fault(err)
	case string(text) == "null":
		return nil // only comments
	}
	l.object(explain.Origin{File: d.file, Line: d.line, LineOf: linesOf(d)}, text, d.found)
	return nil
}

// mentions matches text that claims to be an object of PureLB, even if it is not YAML.
var mentions = regexp.MustCompile(`(?m)(?:^|[-{,] *)["']?(?:apiVersion|kind)["']?: *["']?(?:(?:bgp\.)?purelb\.io/|(?:ServiceGroup|LBNodeAgent|BGPConfiguration|BGPNodeStatus)\b)`)

// claims reports whether text is to be an object of Kubernetes, right or wrong. The values and the
// name of a chart have neither a kind nor such an apiVersion.
func claims(text []byte) bool {
	var h struct{ APIVersion, Kind any }
	_ = json.Unmarshal(text, &h) // A list has no fields.
	kind, _ := h.Kind.(string)
	version, _ := h.APIVersion.(string)
	return kind != "" || version == "v1" || strings.Contains(version, "/")
}

// object reads one object. place is its place in the files. found says that the file was found in a
// folder, and not named.
func (l *loader) object(place explain.Origin, text []byte, found bool) {
	var h head
	err := json.Unmarshal(text, &h)
	switch {
	case found && !claims(text):
		l.notes = append(l.notes, place.At("")+" is left out, because it is no manifest")
		return
	case err != nil:
		at, text := wrongType(err)
		l.w.Mistakes = append(l.w.Mistakes, explain.Mistake{Place: place.At(at), Message: "this is not a Kubernetes object: " + text})
		return
	}
	if h.Kind == "List" || h.Items != nil && strings.HasSuffix(h.Kind, "List") {
		for i, item := range h.Items {
			item = typed(item, h)
			place.Path = fmt.Sprintf("items[%d]", i)
			l.object(place, item, false)
		}
		return
	}
	if strings.HasPrefix(h.Metadata.Annotations["helm.sh/hook"], "test") {
		return // Only "helm test" creates it, for a short time.
	}
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.Group == groupOf(h.APIVersion) && k.Kind == h.Kind })
	if i < 0 || h.APIVersion == "" || !served(h.TypeMeta) {
		l.unknown(place, h)
		return
	}
	l.pending = append(l.pending, pending{h, place, text, kinds[i]})
}

// name returns the name of p, with the namespace that it has or gets.
func (l *loader) name(p pending) explain.Object {
	return explain.Object{Kind: p.Kind, Namespace: cmp.Or(p.Metadata.Namespace, l.namespaceOf(p.kind)), Name: p.Metadata.Name}
}

// find returns the namespaces that PureLB runs in, by its Leases, Pods and Deployments. A Lease counts
// if it was fresh when the newest Lease of the files was renewed. Unless the user names the namespace of
// PureLB, find chooses one of them, that of the user's objects if it is among them. Without any, find
// guesses the usual one, or that of the configuration.
func (l *loader) find(objects string) (homes []string) {
	var configured []string
	var leases []coordinationv1.Lease
	var now time.Time
	for _, p := range l.pending {
		switch {
		case p.Metadata.Namespace == "":
		case (p.Kind == "Pod" || p.Kind == "Deployment") && p.Metadata.Labels["app"] == "purelb":
			homes = append(homes, p.Metadata.Namespace)
		case p.Kind == "Lease":
			var one coordinationv1.Lease
			_ = json.Unmarshal(p.text, &one) // world records the mistake.
			if t := renewal(one); t.After(now) {
				now = t
			}
			if one.Name == leaderLease || strings.HasPrefix(one.Name, lease.Prefix) {
				leases = append(leases, one)
			}
		case p.kind.Group == v2.GroupVersion.Group, p.Kind == "BGPConfiguration":
			configured = append(configured, p.Metadata.Namespace)
		}
	}
	homes = distinct(append(renewedIn(leases, now), homes...))
	switch {
	case l.w.Namespace != "":
	case len(homes) > 0:
		l.w.Namespace = chosen(homes, objects)
	default:
		l.w.Guessed, l.w.Namespace = true, installNamespace
		slices.Sort(configured)
		if configured = slices.Compact(configured); len(configured) > 0 && !slices.Contains(configured, installNamespace) {
			l.w.Namespace = chosen(configured, objects)
		}
	}
	return homes
}

// guess records what is assumed about o because field is missing.
func (l *loader) guess(o explain.Object, field, what string) {
	l.w.Guesses = append(l.w.Guesses, explain.Guess{Object: o, Field: field, What: field + " is missing; " + what})
}

// served reports whether an API server with PureLB's definitions accepts objects of this type.
func served(t metav1.TypeMeta) bool {
	if !ofPureLB(t.APIVersion) {
		return true
	}
	_, defined := definitions()[t.APIVersion+" "+t.Kind]
	return defined
}

// ofPureLB reports whether apiVersion is that of custom resources of PureLB.
func ofPureLB(apiVersion string) bool { return strings.Contains(groupOf(apiVersion), "purelb.io") }

// typed returns item. If item has no type, it gets the type that list implies: the API server
// omits the types of items in a list of one kind.
func typed(item json.RawMessage, list head) json.RawMessage {
	var o map[string]any
	if err := json.Unmarshal(item, &o); err != nil || o == nil || list.Kind == "List" {
		return item
	}
	if _, has := o["kind"]; !has {
		o["apiVersion"], o["kind"] = list.APIVersion, strings.TrimSuffix(list.Kind, "List")
	}
	if text, err := json.Marshal(o); err == nil {
		return text
	}
	return item
}

// unknown records a mistake if h claims to be an object of PureLB. It ignores other unknown
// objects.
func (l *loader) unknown(place explain.Origin, h head) {
	if h.Kind == "" || h.APIVersion == "" {
		l.w.Mistakes = append(l.w.Mistakes, explain.Mistake{Place: place.At(""), Message: "this is no manifest, because apiVersion or kind is missing; " +
			`leave it out, or give the output of "helm template" or "kubectl kustomize" in place of their sources`})
		return
	}
	if ofPureLB(h.APIVersion) || groupOf(h.APIVersion) == "purelb" {
		l.w.Mistakes = append(l.w.Mistakes, explain.Mistake{Place: place.At(""), Message: fmt.Sprintf(
			"PureLB has no objects of apiVersion %q and kind %q; it has ServiceGroup and LBNodeAgent of %s and v1, and BGPConfiguration and BGPNodeStatus of %s",
			h.APIVersion, h.Kind, v2.GroupVersion, bgpv1.GroupVersion)})
	}
}

func (l *loader) mistake(o explain.Object, field, message string) {
	l.w.Mistakes = append(l.w.Mistakes, explain.Mistake{Object: o, Field: field, Message: message})
}

// namespaceOf returns the namespace of an object of k that does not name one.
func (l *loader) namespaceOf(k kind) string {
	switch {
	case k.clustered:
		return ""
	case k.users:
		return metav1.NamespaceDefault
	}
	return l.w.Namespace
}

// groupOf returns the API group, or "" for the core group.
func groupOf(apiVersion string) string {
	group, _, named := strings.Cut(apiVersion, "/")
	if !named {
		return ""
	}
	return group
}

// decode decodes p, which is called o, as the API server does, and adds it to the objects. Unknown fields are
// mistakes, because kubectl refuses them too.
func (l *loader) decode(p pending, o explain.Object) error {
	one, err := scheme().New(p.kind.GroupVersionKind)
	if err != nil {
		return err
	}
	unknown, err := kubejson.UnmarshalStrict(p.text, one)
	if err != nil {
		return err
	}
	for _, u := range unknown {
		l.mistake(o, fieldOf(u.Error()), oneLine(u))
	}
	object := one.(client.Object)
	object.SetNamespace(o.Namespace)
	p.kind.add(&l.w, object)
	return nil
}

// fieldOf returns the path in quotes of an error such as `unknown field "spec.x"`.
func fieldOf(text string) string {
	_, rest, _ := strings.Cut(text, `"`)
	field, _, _ := strings.Cut(rest, `"`)
	return field
}

// wrongType returns the field of err, an error about a value of the wrong type, and says what is
// wrong with it. Of another error it returns the text.
func wrongType(err error) (at, text string) {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return "", oneLine(err)
	}
	is, _, _ := strings.Cut(wrong.Value, " ")
	text = "it is " + inYAML[is]
	if want := inYAML[wrong.Type.Kind().String()]; wrong.Field != "" && want != "" {
		text = fmt.Sprintf("%s: there is %s in place of %s", wrong.Field, inYAML[is], want)
	}
	return wrong.Field, text
}

// inYAML are the words for values, by what package json and Go call them.
var inYAML = map[string]string{
	"string": "text", "number": "a number", "bool": "true or false", "array": "a list", "object": "a mapping",
	"int": "a number", "int32": "a number", "int64": "a number", "uint32": "a number", "slice": "a list", "struct": "a mapping", "map": "a mapping",
}

// oneLine returns the text of err on one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
