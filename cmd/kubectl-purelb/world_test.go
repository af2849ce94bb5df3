package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"purelb.io/purelb/internal/explain"
	"purelb.io/purelb/internal/testing/expect"
)

// filed is the world of files. "-" is input.
func filed(tb testing.TB, input string, files ...string) explain.World {
	tb.Helper()
	o := &options{in: strings.NewReader(input)}
	newRoot(o)
	o.files = files
	w, err := o.readFiles()
	expect.NoError(tb, err)
	return w
}

// recorded is the world of testdata/cluster.yaml.
func recorded(tb testing.TB) explain.World { return filed(tb, "", "testdata/cluster.yaml") }

// wellWorld is the recorded world without what is wrong in it.
func wellWorld(tb testing.TB) explain.World { return with(tb, recorded(tb), "well: true") }

// well is the change from the recorded world to wellWorld.
const well = `
gone: [Services mail, Services typo, Services fresh, Services late, Services gone, Services cloud, Services till, ServiceGroups lost, ServiceGroups twice, ServiceGroups shop,
  Leases purelb-node-n3, Nodes n3, BGPNodeStatuses n2]
Leases purelb-node-n2: {metadata: {annotations: {purelb.io/claimed-addresses: null}}}
`

// fine are the facts about a cluster in which nothing is wrong.
func fine() explain.Facts {
	return explain.Facts{Version: "v1.36.1", APIGroups: []string{"apps", "purelb.io", "bgp.purelb.io"}, Proxy: explain.Proxy{Mode: "iptables"}}
}

// with returns w with the changes in text.
func with(tb testing.TB, w explain.World, text string) explain.World {
	tb.Helper()
	s := stage{world: w}
	s.set(tb, text)
	return s.world
}

// set changes s by the keys of text. "Nodes n1" has the fields of the object that differ: null
// removes one, and 0 names the first element of a list. An object that is not there is added.
// "gone" lists objects that are removed, and "unread" says why the objects of a kind are not known.
// "well" is wellWorld, "facts" are the facts of a check that differ, "now" is the time, "files"
// are manifests. The other keys are fields of stage.
func (s *stage) set(tb testing.TB, text string) {
	tb.Helper()
	var changes map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &changes); err != nil {
		tb.Fatalf("%v in %s", err, text)
	}
	if _, is := changes["well"]; is {
		delete(changes, "well")
		s.set(tb, well)
		s.world.Unread = nil
	}
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		switch value := changes[key]; key {
		case "allocator":
			remade(tb, value, &s.allocator)
		case "agents":
			remade(tb, value, &s.agents)
		case "probes":
			remade(tb, value, &s.probes)
		case "faults":
			remade(tb, value, &s.faults)
		case "texts":
			remade(tb, value, &s.texts)
		case "namespace":
			s.namespace = value.(string)
		case "facts":
			remade(tb, value, &s.facts)
		case "now":
			s.world.Now = time.Time{}
			remade(tb, value, &s.world.Now)
		case "files":
			s.files = value.(string)
		case "gone":
			for _, name := range value.([]any) {
				s.object(tb, name.(string), nil)
			}
		case "unread":
			reasons := value.(map[string]any)
			for _, kind := range slices.Sorted(maps.Keys(reasons)) {
				reflect.ValueOf(listsOf(&s.world)[kind]).Elem().SetZero()
				s.world.Settled = s.world.Settled && kind != explain.KindPods
				s.world.Unread = append(s.world.Unread, explain.NewUnread(kind, reasons[kind].(string), "timed out"))
			}
		default:
			s.object(tb, key, value)
		}
	}
}

// object changes, adds or removes the object that is named "Nodes n1", for example.
func (s *stage) object(tb testing.TB, key string, change any) {
	tb.Helper()
	kind, name, _ := strings.Cut(key, " ")
	list, known := listsOf(&s.world)[kind]
	if !known {
		tb.Fatalf("there are no %s", kind)
	}
	var all []any
	remade(tb, list, &all)
	at := slices.IndexFunc(all, func(o any) bool { return o.(map[string]any)["metadata"].(map[string]any)["name"] == name })
	switch {
	case change == nil && at < 0:
		tb.Fatalf("there is no %s", key)
	case change == nil:
		all = slices.Delete(all, at, at+1)
	case at < 0:
		all = append(all, merged(map[string]any{"metadata": map[string]any{"name": name}}, change))
	default:
		all[at] = merged(all[at], change)
	}
	reflect.ValueOf(list).Elem().SetZero()
	remade(tb, all, list)
}

// remade decodes what from is in JSON into to.
func remade(tb testing.TB, from, to any) {
	tb.Helper()
	text, err := json.Marshal(from)
	expect.NoError(tb, err)
	strict := json.NewDecoder(bytes.NewReader(text))
	strict.DisallowUnknownFields()
	if err := strict.Decode(to); err != nil {
		tb.Fatalf("%v in %s", err, text)
	}
}

// merged returns old with the fields of change.
func merged(old, change any) any {
	fields, is := change.(map[string]any)
	if !is {
		return change
	}
	switch old := old.(type) {
	case []any:
		for at, value := range fields {
			i, err := strconv.Atoi(at)
			if err != nil {
				return change
			}
			old = append(old, make([]any, max(0, i+1-len(old)))...)
			old[i] = merged(old[i], value)
		}
		return old
	case map[string]any:
		for name, value := range fields {
			if value == nil {
				delete(old, name)
			} else {
				old[name] = merged(old[name], value)
			}
		}
		return old
	}
	return change
}

// listsOf are the objects of w by their kind.
func listsOf(w *explain.World) map[string]any {
	return map[string]any{
		explain.KindServices: &w.Services, explain.KindGroups: &w.Groups, explain.KindAgents: &w.Agents, explain.KindLeases: &w.Leases,
		explain.KindNodes: &w.Nodes, explain.KindNamespaces: &w.Namespaces, explain.KindNetworks: &w.Networks, explain.KindPods: &w.Pods,
		explain.KindConfigurations: &w.Configurations, explain.KindNodeStatuses: &w.NodeStatuses, explain.KindEndpoints: &w.EndpointSlices,
	}
}

// without returns the recorded world as a user reads it who has no right to list that kind.
func without(tb testing.TB, kind string) explain.World {
	return with(tb, recorded(tb), "unread: {"+kind+": "+explain.Forbidden+"}")
}
