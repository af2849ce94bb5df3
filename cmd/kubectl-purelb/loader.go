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

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubejson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	v1 "purelb.io/purelb/api/purelb/v1"
	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/nodes/lease"
)

// loader collects the objects of documents.
type loader struct {
	w           explain.World
	namespaces  []corev1.Namespace
	deployments []appsv1.Deployment
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
	read  func(*loader, explain.Object, []byte) error
}

// newLoader returns a loader for PureLB in namespace. If it is "", find finds it.
func newLoader(namespace string) *loader {
	l := &loader{}
	l.w.Namespace = namespace
	l.w.Origins = map[explain.Object]explain.Origin{}
	return l
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
			err = p.read(l, o, p.text)
		}
		if err != nil && len(l.w.Mistakes) == known {
			at, text := wrongType(err)
			l.mistake(o, at, text)
		}
		if p.Metadata.Namespace == "" && o.Namespace != "" {
			l.guess(o, explain.FieldNamespace, "the plugin assumes namespace "+o.Namespace)
		}
	}
	l.choose()
	newest(&l.w)
	missing(&l.w)
	return l.w
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
	l.object(explain.Origin{File: d.file, Line: d.line, Lines: linesOf(d)}, text, d.found)
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
	read, known := kinds[groupOf(h.APIVersion)+h.Kind]
	if !known || h.APIVersion == "" || !served(h.APIVersion) {
		l.unknown(place, h)
		return
	}
	l.pending = append(l.pending, pending{h, place, text, read})
}

// name returns the name of p, with the namespace that it has or gets.
func (l *loader) name(p pending) explain.Object {
	return explain.Object{Kind: p.Kind, Namespace: cmp.Or(p.Metadata.Namespace, l.namespaceOf(p.head)), Name: p.Metadata.Name}
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
		switch kind := groupOf(p.APIVersion) + p.Kind; {
		case p.Metadata.Namespace == "":
		case (kind == "Pod" || kind == "apps/Deployment") && p.Metadata.Labels["app"] == "purelb":
			homes = append(homes, p.Metadata.Namespace)
		case kind == "coordination.k8s.io/Lease":
			var one coordinationv1.Lease
			_ = json.Unmarshal(p.text, &one) // world records the mistake.
			if t := renewal(one); t.After(now) {
				now = t
			}
			if one.Name == leaderLease || strings.HasPrefix(one.Name, lease.Prefix) {
				leases = append(leases, one)
			}
		case groupOf(p.APIVersion) == "purelb.io/", kind == "bgp.purelb.io/BGPConfiguration":
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

// served reports whether an API server with PureLB's definitions accepts objects of apiVersion.
func served(apiVersion string) bool {
	switch groupOf(apiVersion) {
	case "purelb.io/":
		return slices.Contains([]string{v1.GroupVersion.String(), v2.GroupVersion.String()}, apiVersion)
	case "bgp.purelb.io/":
		return apiVersion == bgpv1.GroupVersion.String()
	}
	return true
}

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
	if group := groupOf(h.APIVersion); group == "purelb.io/" || group == "bgp.purelb.io/" || group == "purelb/" {
		l.w.Mistakes = append(l.w.Mistakes, explain.Mistake{Place: place.At(""), Message: fmt.Sprintf(
			"PureLB has no objects of apiVersion %q and kind %q; it has ServiceGroup and LBNodeAgent of %s and v1, and BGPConfiguration and BGPNodeStatus of %s",
			h.APIVersion, h.Kind, v2.GroupVersion, bgpv1.GroupVersion)})
	}
}

func (l *loader) mistake(o explain.Object, field, message string) {
	l.w.Mistakes = append(l.w.Mistakes, explain.Mistake{Object: o, Field: field, Message: message})
}

// namespaceOf returns the namespace of an object that does not name one.
func (l *loader) namespaceOf(h head) string {
	switch groupOf(h.APIVersion) + h.Kind {
	case "Node", "Namespace", "networking.k8s.io/ServiceCIDR", "bgp.purelb.io/BGPNodeStatus":
		return ""
	case "Service", "discovery.k8s.io/EndpointSlice":
		return metav1.NamespaceDefault
	}
	return l.w.Namespace
}

// groupOf returns the API group with a slash, or "" for the core group.
func groupOf(apiVersion string) string {
	group, _, named := strings.Cut(apiVersion, "/")
	if !named {
		return ""
	}
	return group + "/"
}

// kinds are the functions that read objects, by API group and kind.
var kinds = map[string]func(*loader, explain.Object, []byte) error{
	"purelb.io/ServiceGroup":         into(func(l *loader) *[]v2.ServiceGroup { return &l.w.Groups }),
	"purelb.io/LBNodeAgent":          into(func(l *loader) *[]v2.LBNodeAgent { return &l.w.Agents }),
	"bgp.purelb.io/BGPConfiguration": into(func(l *loader) *[]bgpv1.BGPConfiguration { return &l.w.Configurations }),
	"bgp.purelb.io/BGPNodeStatus":    into(func(l *loader) *[]bgpv1.BGPNodeStatus { return &l.w.NodeStatuses }),
	"Service":                        into(func(l *loader) *[]corev1.Service { return &l.w.Services }),
	"Node":                           into(func(l *loader) *[]corev1.Node { return &l.w.Nodes }),
	"Pod":                            into(func(l *loader) *[]corev1.Pod { return &l.w.Pods }),
	"Namespace":                      into(func(l *loader) *[]corev1.Namespace { return &l.namespaces }),
	"discovery.k8s.io/EndpointSlice": into(func(l *loader) *[]discoveryv1.EndpointSlice { return &l.w.EndpointSlices }),
	"networking.k8s.io/ServiceCIDR":  into(func(l *loader) *[]networkingv1.ServiceCIDR { return &l.w.Networks }),
	"coordination.k8s.io/Lease":      into(func(l *loader) *[]coordinationv1.Lease { return &l.w.Leases }),
	"apps/Deployment":                into(func(l *loader) *[]appsv1.Deployment { return &l.deployments }),
}

// into returns a function that decodes an object as the API server does, and appends it to a list.
// Unknown fields are mistakes, because kubectl refuses them too.
func into[T any](list func(*loader) *[]T) func(*loader, explain.Object, []byte) error {
	return func(l *loader, o explain.Object, text []byte) error {
		var one T
		unknown, err := kubejson.UnmarshalStrict(text, &one)
		if err != nil {
			return err
		}
		for _, u := range unknown {
			l.mistake(o, fieldOf(u.Error()), oneLine(u))
		}
		any(&one).(metav1.Object).SetNamespace(o.Namespace)
		*list(l) = append(*list(l), one)
		return nil
	}
}

// choose keeps the objects that matter to PureLB, and reads how PureLB is installed.
func (l *loader) choose() {
	elsewhere := func(o metav1.Object) bool { return o.GetNamespace() != l.w.Namespace }
	l.w.Pods = slices.DeleteFunc(l.w.Pods, func(p corev1.Pod) bool { return elsewhere(&p) || p.Labels["app"] != "purelb" })
	l.w.Leases = slices.DeleteFunc(ofNodes(l.w.Leases), func(o coordinationv1.Lease) bool { return elsewhere(&o) })
	services := l.w.Services
	l.w.Services = nil
	for i := range services {
		l.complete(&services[i])
		addService(&l.w, services[i])
	}
	for _, ns := range l.namespaces {
		l.w.Namespaces = append(l.w.Namespaces, metav1.PartialObjectMetadata{ObjectMeta: ns.ObjectMeta})
	}
	var allocator *corev1.PodSpec
	for i := range l.deployments {
		if spec := &l.deployments[i].Spec.Template.Spec; container(spec, "allocator") != nil {
			allocator = spec
		}
	}
	settle(&l.w, allocator)
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
