package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
)

const home = "purelb-system"

// meta returns the metadata of an object. A smaller number means an older object.
// name may be "namespace/name".
func meta(number int, name string) metav1.ObjectMeta {
	o := metav1.ObjectMeta{Namespace: home, Name: name, CreationTimestamp: metav1.Unix(int64(number), 0)}
	if namespace, name, ok := strings.Cut(name, "/"); ok {
		o.Namespace, o.Name = namespace, name
	}
	return o
}

// groups reads lines of "name: spec", with the spec in YAML's flow style. The
// oldest group comes first.
func serviceGroups(t testing.TB, text string) []v2.ServiceGroup {
	t.Helper()
	var all []v2.ServiceGroup
	for i, line := range lines(text) {
		name, spec, _ := strings.Cut(line, ": ")
		sg := v2.ServiceGroup{ObjectMeta: meta(i, name)}
		unmarshal(t, spec, &sg.Spec)
		all = append(all, sg)
	}
	return all
}

// agents reads LBNodeAgents in the same format.
func agents(t testing.TB, text string) []v2.LBNodeAgent {
	t.Helper()
	var all []v2.LBNodeAgent
	for i, line := range lines(text) {
		name, spec, _ := strings.Cut(line, ": ")
		a := v2.LBNodeAgent{ObjectMeta: meta(i, name)}
		unmarshal(t, spec, &a.Spec)
		all = append(all, a)
	}
	return all
}

func unmarshal(t testing.TB, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// lines returns the non-empty lines of text, without indentation.
func lines(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// print returns a text of c: one line for each group, enforced boundary, agent and problem.
func print(c config.Config) string {
	var b strings.Builder
	for _, g := range c.Groups.Usable {
		printGroup(&b, g)
	}
	for _, backend := range c.Backends {
		printBackend(&b, backend)
	}
	for _, fence := range c.Groups.Enforced {
		fmt.Fprintf(&b, "fence%s\n", boundary(fence))
	}
	for _, a := range c.Agents {
		printAgent(&b, a)
	}
	for _, a := range c.Broken {
		fmt.Fprintf(&b, "broken %s %q\n", a.Name, a.Selector)
	}
	for _, p := range c.Problems {
		fmt.Fprintf(&b, "%s %s %s: %s\n", p.Severity, p.Reason, p.Name, p)
	}
	return b.String()
}

func printGroup(b *strings.Builder, g groups.Group) {
	fmt.Fprintf(b, "group %s %s", g.Name, g.Announce)
	for _, p := range g.Pools {
		fmt.Fprintf(b, " %s/%d", p.Range, p.Bits)
		for _, x := range p.Exclude {
			fmt.Fprintf(b, " without %s", x)
		}
		b.WriteString(when(p.Draining, " draining"))
	}
	if g.Backend != "" {
		fmt.Fprintf(b, " by %s/%d/%d", g.Backend, g.Mask(addr.V4), g.Mask(addr.V6))
	}
	b.WriteString(when(g.Alias != "", " alias "+g.Alias) + when(g.SkipIPv6DAD, " skipIPv6DAD") +
		when(g.MultiPool, " multiPool") + when(g.ForbidMultiPool, " no multiPool by request") + when(g.BalancePools, " balancePools") +
		when(g.SharedAcrossNamespaces, " shared across namespaces") + boundary(g.Boundary) + "\n")
}

func printBackend(b *strings.Builder, of config.Backend) {
	fmt.Fprintf(b, "backend %s", of.Group)
	if e := of.External; e != nil {
		fmt.Fprintf(b, " %s at %s", e.Provider, e.Socket)
	}
	if n := of.NetBox; n != nil {
		fmt.Fprintf(b, " %s token %s", n.URL, n.Token)
		b.WriteString(when(n.CA.Name != "", fmt.Sprintf(" CA %s", n.CA)) + when(n.Reserved, " reserved"))
		for _, p := range n.Parents {
			fmt.Fprintf(b, " in %+v", p)
		}
		fmt.Fprintf(b, " tenant %q field %s status %s role %q tags %q", n.Tenant, n.Field, n.Status, n.Role, n.Tags)
	}
	b.WriteString("\n")
}

func boundary(b groups.Boundary) string {
	text := when(len(b.Namespaces) > 0, " for "+strings.Join(b.Namespaces, ","))
	if b.NamespaceSelector != nil {
		text += fmt.Sprintf(" for %q", b.NamespaceSelector)
	}
	if b.ServiceSelector != nil {
		text += fmt.Sprintf(" for Services %q", b.ServiceSelector)
	}
	text += when(b.Enforce, " enforced") + when(b.Default, " default")
	if b.Priority != nil {
		text += fmt.Sprintf(" priority %d", *b.Priority)
	}
	return text + when(b.ByName, " by name")
}

// when returns text if so is true, and otherwise "".
func when(so bool, text string) string {
	if !so {
		return ""
	}
	return text
}

func printAgent(b *strings.Builder, a config.Agent) {
	local := "default"
	switch {
	case a.Local != nil:
		local = a.Local.String()
	case a.All:
		local = "all"
	}
	fmt.Fprintf(b, "agent %s %q local %s %v dummy %s%s", a.Name, a.Selector, local, a.Interfaces, a.Dummy, when(a.Implied, " implied")+when(len(a.Networks) > 0, fmt.Sprintf(" networks %v", a.Networks)))
	fmt.Fprintf(b, " (%s)", options(a.LocalAddress))
	fmt.Fprintf(b, " (%s)", options(a.RemoteAddress))
	if g := a.GARP; g.Enabled {
		fmt.Fprintf(b, " garp %s+%dx%s", g.InitialDelay, g.Count, g.Interval)
		if g.Verify {
			b.WriteString(" verified")
		}
	}
	b.WriteString("\n")
}

func options(o config.AddressOptions) string {
	route := "prefix route"
	if o.NoPrefixRoute {
		route = "no prefix route"
	}
	return fmt.Sprintf("%s/%s %s", o.Valid, o.Preferred, route)
}

// same compares the text of c with want.
func same(t *testing.T, c config.Config, want string) {
	t.Helper()
	if diff := cmp.Diff(lines(want), lines(print(c))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// example is the text of objects, and that of their configuration.
type example struct{ name, text, want string }

// check compares each example with what read makes of it.
func check(t *testing.T, read func(*testing.T, string) config.Config, examples []example) {
	t.Helper()
	for _, tt := range examples {
		t.Run(tt.name, func(t *testing.T) { same(t, read(t, tt.text), tt.want) })
	}
}

func ofGroups(t *testing.T, text string) config.Config {
	return config.For(serviceGroups(t, text), nil, home)
}

func ofAgents(t *testing.T, text string) config.Config {
	return config.For(nil, agents(t, text), home)
}
