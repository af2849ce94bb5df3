package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/census"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/bgp/peering"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// The outcomes of a Check.
const (
	Pass = "PASS"
	Warn = "WARN"
	Fail = "FAIL"
)

// Check is the result of one check.
type Check struct {
	Status  string `json:"status"`
	Message string `json:"message"`
	// Code is the reason that the allocator gives for the same problem. Object is the object
	// of the check.
	Code   string `json:"code,omitempty"`
	Object string `json:"object,omitempty"`
	// At is file:line of an object from a file.
	At string `json:"at,omitempty"`
}

// Validation is the result of all checks of a configuration.
type Validation struct {
	Checks []Check `json:"checks"`
	Pass   int     `json:"pass"`
	Warn   int     `json:"warn"`
	Fail   int     `json:"fail"`
	// Changes are what would happen to Services if the files were applied to a cluster. Unchanged
	// counts the Services without a change. See Against.
	Changes   []Change `json:"changes,omitempty"`
	Unchanged int      `json:"unchanged,omitempty"`
	// Guesses are the assumptions about objects in files.
	Guesses []string `json:"guesses,omitempty"`
	Unread  []Unread `json:"unknown,omitempty"`
}

// Validate checks all objects of w.
func Validate(w World) Validation { return validate(newView(w)) }

func validate(v *view) Validation {
	var r Validation
	for _, c := range slices.Concat(v.checkMistakes(), v.checkReading(), v.checkObjects(), v.checkDefault(), v.checkNamespaces(), v.checkReach(),
		v.checkAgents(), v.checkPeering(), v.checkServices()) {
		r.count(c)
	}
	r.Unread = slices.DeleteFunc(slices.Clone(v.Unread), unchecked)
	r.Guesses = v.guesses()
	return r
}

// count adds c.
func (r *Validation) count(c Check) {
	r.Checks = append(r.Checks, c)
	switch c.Status {
	case Pass:
		r.Pass++
	case Warn:
		r.Warn++
	default:
		r.Fail++
	}
}

// unchecked reports whether no check is about u.
func unchecked(u Unread) bool {
	return slices.Contains([]string{KindPods, KindNodeStatuses, KindEndpoints}, u.Kind)
}

// checkReading warns of objects that could not be read and may be wrong.
func (v *view) checkReading() []Check {
	var checks []Check
	for _, u := range v.Unread {
		if u.hidden() && !unchecked(u) {
			checks = append(checks, Check{Status: Warn, Message: "not looked at: " + u.String()})
		}
	}
	return checks
}

// guesses lists the assumptions, and their objects.
func (v *view) guesses() []string {
	of := map[string][]string{}
	for _, g := range v.Guesses {
		of[g.What] = append(of[g.What], g.Object.String())
	}
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(of)) {
		lines = append(lines, list(of[what])+": "+what)
	}
	return lines
}

// Tables returns the tables of r. Scripts depend on the last line.
func (r Validation) Tables() []Table {
	var t Table
	for _, c := range r.Checks {
		line := c.Status + "  "
		if c.At != "" {
			line += c.At + ": "
		}
		line += c.Message
		if c.Code != "" {
			line += " [" + c.Code + "]"
		}
		t.Lines = append(t.Lines, line)
	}
	for _, u := range r.Unread {
		if !u.hidden() { // The others are among the Checks.
			t.Lines = append(t.Lines, "not looked at: "+u.String())
		}
	}
	for _, g := range r.Guesses {
		t.Lines = append(t.Lines, "guessed: "+g)
	}
	for _, c := range r.Changes {
		t.Lines = append(t.Lines, "CHANGE  "+c.line())
	}
	if r.Changes != nil {
		t.Lines = append(t.Lines, counted(r.Unchanged, "Service", "Services")+" would not change")
	}
	t.Lines = append(t.Lines, fmt.Sprintf("Result: %d FAIL, %d WARN, %d PASS", r.Fail, r.Warn, r.Pass))
	return []Table{t}
}

// at says where the field of an object is in a file, or "".
func (v *view) at(o Object, field string) string { return v.Origins[o].At(field) }

// check returns the result of a check of a field of o, or of all of o. The message goes on after the name of o.
func (v *view) check(status, code string, o Object, field, message string) Check {
	return Check{Status: status, Code: code, Object: o.String(), At: v.at(o, field), Message: o.String() + message}
}

func (v *view) checkMistakes() []Check {
	var checks []Check
	for _, m := range v.Mistakes {
		if m.Field != "" && slices.ContainsFunc(v.state.Config.Problems, func(p config.Problem) bool {
			return p.Severity == config.Refused && p.Field == m.Field && (Object{p.Kind, p.Namespace, p.Name}) == m.Object
		}) {
			continue // The programs say more about it.
		}
		c := Check{Status: Fail, Message: m.Message, At: m.Place}
		if m.Object != (Object{}) {
			c.Object, c.At = m.Object.String(), cmp.Or(v.at(m.Object, m.Field), m.Place)
			c.Message = c.Object + ": " + m.Message
		}
		checks = append(checks, c)
	}
	return checks
}

// checkObjects reports the result of package config for each ServiceGroup and LBNodeAgent.
func (v *view) checkObjects() []Check {
	var all []Object
	for _, g := range v.Groups {
		all = append(all, Object{config.KindServiceGroup, g.Namespace, g.Name})
	}
	for _, a := range v.Agents {
		all = append(all, Object{config.KindLBNodeAgent, a.Namespace, a.Name})
	}
	var checks []Check
	for _, o := range all {
		found := slices.IndexFunc(v.Mistakes, func(m Mistake) bool { return m.Object == o }) + 1
		for _, p := range v.state.Config.Problems {
			if (Object{p.Kind, p.Namespace, p.Name}) != o {
				continue
			}
			found++
			status := Warn
			if p.Severity == config.Refused {
				status = Fail
			}
			checks = append(checks, v.check(status, p.Reason, o, p.Field, ": "+p.String()))
		}
		if found == 0 {
			checks = append(checks, v.check(Pass, config.ReasonAccepted, o, "", " is in order"))
		}
	}
	return checks
}

// checkDefault reports what happens to Services that no group is for.
func (v *view) checkDefault() []Check {
	if len(v.Groups) == 0 {
		return nil
	}
	if _, ok := v.state.Config.Groups.Group(ipam.DefaultGroup); ok {
		return nil
	}
	open := slices.ContainsFunc(v.state.Config.Groups.Usable, func(g groups.Group) bool { return g.Priority != nil && !g.ByName && len(g.Namespaces) == 0 })
	if open {
		return nil
	}
	return []Check{{Status: Warn, Code: ipam.ReasonNoPool, Message: "Services that name no group get no address, except those that a group is for: create a ServiceGroup " +
		ipam.DefaultGroup + ", or give a priority to a group that is for all Services"}}
}

// checkNamespaces requests an address for a Service in each namespace that groups are for, because
// the allocator's own rule finds what is ambiguous.
func (v *view) checkNamespaces() []Check {
	spaces := map[string]bool{}
	for _, g := range v.state.Config.Groups.Usable {
		for _, ns := range g.Namespaces {
			spaces[ns] = true
		}
	}
	for ns := range v.state.Namespaces {
		spaces[ns] = true
	}
	var checks []Check
	for _, ns := range slices.Sorted(maps.Keys(spaces)) {
		r := service.Request{Namespace: ns, Name: "any", Families: []addr.Family{addr.V4, addr.V6}, Policy: service.One}
		choice := v.state.Cluster().Choose(r)
		for _, n := range choice.Notes {
			if n.Warning {
				checks = append(checks, Check{Status: Fail, Code: ipam.ReasonAmbiguous, Message: "namespace " + ns + ": " + n.Message})
			}
		}
		if choice.Refusal != nil && choice.Refusal.Reason == ipam.ReasonAmbiguous {
			checks = append(checks, Check{Status: Fail, Code: ipam.ReasonAmbiguous, Message: "namespace " + ns + ": " + choice.Refusal.Message})
		}
	}
	return checks
}

// checkReach finds ranges of local groups that no node announces.
func (v *view) checkReach() []Check {
	if len(v.state.Subnets) == 0 {
		return nil // Nothing is known of the nodes, or they have no networks: see checkAgents.
	}
	var checks []Check
	for _, g := range v.state.Config.Groups.Usable {
		for _, p := range census.Unreached(g, v.state.Subnets) {
			o := Object{config.KindServiceGroup, g.Namespace, g.Name}
			checks = append(checks, v.check(Warn, "", o, "spec", fmt.Sprintf(
				": %s is not covered by any node, because none has an interface in %s; correct the subnet, have an LBNodeAgent use the interfaces that are there, or make the group a remote one", p.Text, p.Subnet)))
		}
	}
	return checks
}

// checkAgents finds LBNodeAgents without nodes, and nodes that cannot announce.
func (v *view) checkAgents() []Check {
	if !v.knows(KindNodes) || !v.knows(KindAgents) {
		return nil
	}
	var checks []Check
	for _, a := range v.state.Config.Agents {
		if len(v.Nodes) == 0 || a.Selector.Empty() {
			continue
		}
		o := Object{config.KindLBNodeAgent, a.Namespace, a.Name}
		if !slices.ContainsFunc(v.Nodes, func(n corev1.Node) bool { return a.Selector.Matches(labels.Set(n.Labels)) }) {
			checks = append(checks, v.check(Warn, "", o, "spec.nodeSelector", fmt.Sprintf(": its nodeSelector (%s) matches 0 of the %d nodes", a.Selector, len(v.Nodes))))
		}
	}
	for _, n := range v.Nodes {
		if !v.configured(n) {
			checks = append(checks, Check{Status: Warn, Object: "Node " + n.Name, Message: "Node " + n.Name + ": no usable LBNodeAgent is for it, so it announces nothing"})
		}
	}
	for _, n := range v.nodes {
		if n.problem != "" {
			checks = append(checks, Check{Status: Warn, Object: "Node " + n.Node, Message: "Node " + n.Node + ": its agent says: " + n.problem})
		}
	}
	return checks
}

// checkPeering reports the problems of each BGPConfiguration that are the same on every node.
func (v *view) checkPeering() []Check {
	cluster := v.peeringCluster()
	if v.absent(KindNodes) {
		cluster.Nodes = imagined(cluster.Configs)
	}
	var checks []Check
	for _, c := range v.Configurations {
		if o := (Object{"BGPConfiguration", c.Namespace, c.Name}); c.Namespace != v.Namespace {
			checks = append(checks, v.check(Warn, "", o, "metadata.namespace", ": nodes use BGPConfigurations of "+v.Namespace+" only: move it there, with its Secrets"))
		}
	}
	for i := range cluster.Configs {
		c := &cluster.Configs[i]
		o := Object{"BGPConfiguration", c.Namespace, c.Name}
		if text := cluster.OutOfEffect(c); text != "" {
			checks = append(checks, v.check(Warn, peering.ReasonNotInEffect, o, "spec.nodeSelector", ": it is not in effect: "+text))
			continue
		}
		found := slices.IndexFunc(v.Mistakes, func(m Mistake) bool { return m.Object == o }) + 1
		for _, p := range cluster.Problems(c, secretsUnread) {
			found++
			checks = append(checks, v.check(Fail, p.Reason, o, p.Field, ": "+p.String()))
		}
		if found == 0 {
			checks = append(checks, v.check(Pass, "", o, "", " is in order (passwords in Secrets are not looked at)"))
		}
	}
	return checks
}

// imagined returns the labels of one node for each selector, and of one that no selector is for.
func imagined(configs []bgpv1.BGPConfiguration) []map[string]string {
	nodes := []map[string]string{nil}
	for _, c := range configs {
		if c.Spec.NodeSelector == nil {
			continue
		}
		node := map[string]string{}
		maps.Copy(node, c.Spec.NodeSelector.MatchLabels)
		for _, e := range c.Spec.NodeSelector.MatchExpressions {
			others := func(o metav1.LabelSelectorRequirement) bool { return o.Key != e.Key }
			selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: slices.DeleteFunc(slices.Clone(c.Spec.NodeSelector.MatchExpressions), others)})
			for _, value := range slices.Concat(e.Values, []string{""}) {
				if _, set := node[e.Key]; !set && err == nil && selector.Matches(labels.Set{e.Key: value}) {
					node[e.Key] = value
				}
			}
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// checkServices reports for each Service of PureLB whether it gets the addresses that it
// wants.
func (v *view) checkServices() []Check {
	var checks []Check
	served := 0
	var unsure []string
	var why string
	for _, r := range v.plan.Requests {
		choice, ours := v.plan.Choices[ipam.Owner(r.Key())]
		o := Object{"Service", r.Namespace, r.Name}
		for _, w := range choice.Result.Warnings {
			checks = append(checks, v.check(Warn, "", o, "metadata.annotations", ": "+w))
		}
		if ours && r.Dying != "" {
			checks = append(checks, v.check(Warn, "", o, "", ": "+r.Dying))
		}
		switch {
		case !ours || r.Leaving:
		case v.unsure(r) != "":
			unsure = append(unsure, r.Key())
			why = v.unknown(KindGroups, KindNamespaces, KindPods)
		case choice.Refusal != nil && choice.Refusal.Claiming:
			served++ // it is not known here whether its backend has an address
		case choice.Result.Reason != ipam.ReasonAllocated:
			status := Fail
			if choice.Result.Allocated || len(choice.Result.Addresses) > 0 {
				status = Warn
			}
			checks = append(checks, v.check(status, choice.Result.Reason, o, "", ": "+choice.Result.Message))
		default:
			served++
		}
	}
	if len(unsure) > 0 {
		checks = append(checks, Check{Status: Warn, Message: fmt.Sprintf("what %s %s is %s", counted(len(unsure), "Service gets", "Services get"), "("+list(unsure)+")", why)})
	}
	if served > 0 {
		checks = append(checks, Check{Status: Pass, Message: counted(served, "Service gets all addresses that it wants", "Services get all addresses that they want")})
	}
	return checks
}

// counted prints a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// list prints at most five names.
func list(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// secretsUnread assumes that every password is good, because Secrets are not read.
func secretsUnread(string, string) (string, error) { return "unread", nil }
