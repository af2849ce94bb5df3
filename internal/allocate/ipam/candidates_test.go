package ipam_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
)

// option changes a group.
type option func(*groups.Group)

func namespaces(names ...string) option { return func(g *groups.Group) { g.Namespaces = names } }

func namespacesWith(text string) option {
	return func(g *groups.Group) { g.NamespaceSelector = selector(text) }
}

func servicesWith(text string) option {
	return func(g *groups.Group) { g.ServiceSelector = selector(text) }
}

func priority(n int32) option { return func(g *groups.Group) { g.Priority = &n } }

func byDefault(g *groups.Group) { g.Default = true }
func enforced(g *groups.Group)  { g.Enforce = true }
func byName(g *groups.Group)    { g.ByName = true }

func selector(text string) labels.Selector {
	s, err := labels.Parse(text)
	if err != nil {
		panic(err)
	}
	return s
}

// made returns a group of two addresses of each family. The addresses contain n.
func made(name string, n int, options ...option) groups.Group {
	g := groups.Group{Namespace: "purelb-system", Name: name, Announce: groups.AnnounceRemote}
	for _, pair := range [][2]string{{"10.0.%d.1-10.0.%[1]d.2", "10.0.%d.0/24"}, {"fd00::%d:1-fd00::%[1]d:2", "fd00::%d:0/112"}} {
		p, err := groups.ParsePool(fmt.Sprintf(pair[0], n), fmt.Sprintf(pair[1], n), "default")
		if err != nil {
			panic(err)
		}
		g.Pools = append(g.Pools, p)
	}
	for _, o := range options {
		o(&g)
	}
	return g
}

// known are the namespaces of these tests, with their labels.
var known = map[string]map[string]string{
	"default": {}, "a": {"team": "red"}, "b": {"team": "red"}, "c": {"team": "blue"},
}

// only makes these groups the only ones of the cluster.
func only(groups ...groups.Group) func(*ipam.Cluster) {
	return func(c *ipam.Cluster) {
		c.Groups.Usable, c.Groups.Enforced = groups, nil
		for _, g := range groups {
			if g.Enforce {
				c.Groups.Enforced = append(c.Groups.Enforced, g.Boundary)
			}
		}
		c.Boundaries = ipam.BoundariesOf(c.Groups, known)
	}
}

// full makes other Services hold every address of these groups.
func full(n ...int) []string {
	var lines []string
	for _, n := range n {
		lines = append(lines, fmt.Sprintf("other/s%d 10.0.%[1]d.1 10.0.%[1]d.2 fd00::%[1]d:1 fd00::%[1]d:2", n))
	}
	return lines
}

func TestGroupOfAServiceWithoutAGroupName(t *testing.T) {
	check(t, []example{
		{name: "default", request: web("4"), change: only(made("a", 1), made("default", 2)), want: "10.0.2.1 from default (remote)"},
		{name: "the one that lists the namespace", request: web("4", in("a")),
			change: only(made("default", 1), made("red", 2, namespaces("a", "b"))), want: "10.0.2.1 from red (remote)"},
		{name: "the one that selects the namespace", request: web("4", in("b")),
			change: only(made("default", 1), made("red", 2, namespacesWith("team=red"))), want: "10.0.2.1 from red (remote)"},
		{name: "the one that selects the Service", request: web("4", labelled("app", "web")),
			change: only(made("default", 1), made("webs", 2, servicesWith("app=web"))), want: "10.0.2.1 from webs (remote)"},
		{name: "not the one that selects the namespace and another Service", request: web("4", in("a"), labelled("app", "db")),
			change: only(made("default", 1), made("webs", 2, namespaces("a"), servicesWith("app=web"))), want: "10.0.1.1 from default (remote)"},
		{name: "not a group that Services must name", request: web("4", in("a")),
			change: only(made("default", 1), made("red", 2, namespaces("a"), byName)), want: "10.0.1.1 from default (remote)"},
		{name: "a group that the Service must name, and does", request: web("4", in("a"), of("red")),
			change: only(made("default", 1), made("red", 2, namespaces("a"), byName)), want: "10.0.2.1 from red (remote)"},
		{name: "the default among several", request: web("4", in("a")),
			change: only(made("red", 1, namespaces("a")), made("blue", 2, namespaces("a"), byDefault)), want: "10.0.2.1 from blue (remote)"},
		{name: "the first by priority", request: web("4", in("a")),
			change: only(made("red", 1, namespaces("a"), priority(1)), made("blue", 2, namespaces("a"), priority(2)), made("green", 3, namespaces("a"))), want: "10.0.2.1 from blue (remote)"},
		{name: "the oldest of equal priority", request: web("4", in("a")),
			change: only(made("red", 1, namespaces("a"), priority(2)), made("blue", 2, namespaces("a"), priority(2))), want: "10.0.1.1 from red (remote)"},
		{name: "the default before a priority", request: web("4", in("a")),
			change: only(made("red", 1, namespaces("a"), priority(9)), made("blue", 2, namespaces("a"), byDefault)), want: "10.0.2.1 from blue (remote)"},
		{name: "several, without a default", request: web("4", in("a")),
			change: only(made("red", 1, namespaces("a")), made("blue", 2, namespaces("a")), made("default", 3)), want: `
10.0.3.1 from default (remote)
Warning ConfigurationWarning: Service a/web is served by ServiceGroups "red", "blue", and none sets namespaceDefault; exactly one must; allocated from "default" instead`},
		{name: "several defaults", request: web("46", in("a")),
			change: only(made("red", 1, namespaces("a"), byDefault), made("blue", 2, namespaces("a"), byDefault), made("default", 3)), want: `
10.0.3.1 fd00::3:1 from default (remote)
Warning ConfigurationWarning: Service a/web is served by ServiceGroups "red", "blue", and more than one sets namespaceDefault; exactly one must; allocated from "default" instead`},
		{name: "several, without a default, behind a boundary", request: web("4", in("a")),
			change: only(made("red", 1, namespaces("a"), enforced), made("blue", 2, namespaces("a")), made("default", 3)), want: `
false AmbiguousNamespaceDefault: ambiguous namespace default: Service a/web is served by ServiceGroups "red", "blue", and none sets namespaceDefault; exactly one must, or name one with the annotation purelb.io/service-group
refused: pool <none>, ambiguous_namespace_default`},
		{name: "several, and no group default", request: web("4", in("a")),
			change: only(made("red", 1, namespaces("a")), made("blue", 2, namespaces("a"))), want: `
false AmbiguousNamespaceDefault: Service a/web is served by ServiceGroups "red", "blue", and none sets namespaceDefault; exactly one must; unknown pool "default": the Service names no ServiceGroup, and there is none of that name; create it, or name another one with the annotation purelb.io/service-group
refused: pool <none>, unknown_pool`},
		{name: "default, though it lists other namespaces", request: web("4", in("c")),
			change: only(made("default", 1, namespaces("a"))), want: "10.0.1.1 from default (remote)"},
		{name: "not default if it selects other namespaces", request: web("4", in("c")),
			change: only(made("default", 1, namespacesWith("team=red"))), want: `
false NoUsablePool: no usable pool: the Service names no ServiceGroup, and "default" excludes it by autoAssign or a selector; change them, or name a group with the annotation purelb.io/service-group
refused: pool default, no_usable_pool`},
		{name: "not default when it selects other Services", request: web("4"),
			change: only(made("default", 1, servicesWith("app=db"))), want: `
false NoUsablePool: no usable pool: the Service names no ServiceGroup, and "default" excludes it by autoAssign or a selector; change them, or name a group with the annotation purelb.io/service-group
refused: pool default, no_usable_pool`},
		{name: "not default if Services must name it", request: web("4"),
			change: only(made("default", 1, byName)), want: `
false NoUsablePool: no usable pool: the Service names no ServiceGroup, and "default" excludes it by autoAssign or a selector; change them, or name a group with the annotation purelb.io/service-group
refused: pool default, no_usable_pool`},
		{name: "default before open groups", request: web("4"),
			change: only(made("open", 1, priority(1000)), made("default", 2)), want: "10.0.2.1 from default (remote)"},
		{name: "an open group before default by its priority", request: web("4"),
			change: only(made("open", 1, priority(10)), made("default", 2, priority(5))), want: "10.0.1.1 from open (remote)"},
		{name: "an open group without default", request: web("4"), change: only(made("closed", 1), made("open", 2, priority(0))), want: "10.0.2.1 from open (remote)"},
		{name: "unknown labels of the namespace that matter", request: web("4", in("new")),
			change: only(made("default", 1), made("red", 2, namespacesWith("team=red"))), want: `
false NamespaceUnknown: the labels of namespace "new" are not known yet, so PureLB does not know which ServiceGroups are for it; it tries again when they are known
refused: pool <none>, other`},
		{name: "unknown labels of the namespace that do not matter", request: web("4", in("new")),
			change: only(made("default", 1), made("red", 2, namespaces("new"))), want: "10.0.2.1 from red (remote)"},
	})
}

func TestNextGroupGivesMissingAddresses(t *testing.T) {
	bound := only(made("red", 1, namespaces("a"), byDefault), made("blue", 2, namespaces("a"), priority(1)),
		made("open", 3, priority(7)), made("default", 4))
	check(t, []example{
		{name: "a bound group with a priority", request: web("46", in("a")), change: bound, before: full(1), want: "10.0.2.1 fd00::2:1 from blue (remote)"},
		{name: "then an open group", request: web("46", in("a")), change: bound, before: full(1, 2), want: "10.0.3.1 fd00::3:1 from open (remote)"},
		{name: "and never default", request: web("46", in("a")), change: bound, before: full(1, 2, 3), want: `
false Exhausted: pools "red", "blue", "open" exhausted: no available addresses for a/web (IPv4); pools "red", "blue", "open" exhausted: no available addresses for a/web (IPv6)
refused: pool red, exhausted; needs IPv4 of red, IPv4 of blue, IPv4 of open, IPv6 of red, IPv6 of blue, IPv6 of open`},
		{name: "a bound group without a priority does not overflow", request: web("46", in("a")), before: full(1),
			change: only(made("red", 1, namespaces("a")), made("open", 3, priority(7)), made("default", 4)), want: `
false Exhausted: pool "red" exhausted: no available addresses for a/web (IPv4); pool "red" exhausted: no available addresses for a/web (IPv6)
refused: pool red, exhausted; needs IPv4 of red, IPv6 of red`},
		{name: "a bound group with a priority overflows", request: web("46", in("a")), before: full(1),
			change: only(made("red", 1, namespaces("a"), priority(0)), made("open", 3, priority(7)), made("default", 4)), want: "10.0.3.1 fd00::3:1 from open (remote)"},
		{name: "an enforced boundary does not overflow", request: web("46", in("a")), before: full(1),
			change: only(made("red", 1, namespaces("a"), priority(0), enforced), made("open", 3, priority(7)), made("default", 4)), want: `
false Exhausted: pool "red" exhausted: no available addresses for a/web (IPv4); pool "red" exhausted: no available addresses for a/web (IPv6)
refused: pool red, exhausted; needs IPv4 of red, IPv6 of red`},
		{name: "a named group does not overflow", request: web("46", in("a"), of("red")), change: bound, before: full(1), want: `
false Exhausted: pool "red" exhausted: no available addresses for a/web (IPv4); pool "red" exhausted: no available addresses for a/web (IPv6)
refused: pool red, exhausted; needs IPv4 of red, IPv6 of red`},
		{name: "both families from the first group that has both", request: web("4+6", in("a")), change: bound, before: []string{"other/s fd00::1:1 fd00::1:2"}, want: "10.0.2.1 fd00::2:1 from blue (remote)"},
		{name: "each family from the first group that has it, if none has both", request: web("46", in("a")), change: bound,
			before: []string{"other/s fd00::1:1 fd00::1:2 10.0.2.1 10.0.2.2", "other/t 10.0.3.1 10.0.3.2"}, want: "10.0.1.1 fd00::2:1 from red, blue (remote)"},
		{name: "only the missing family", request: web("46", in("a"), holding("10.0.1.1"), from("red", "remote")), change: bound,
			before: []string{"a/web 10.0.1.1", "other/s fd00::1:1 fd00::1:2"}, want: "10.0.1.1 fd00::2:1 from red, blue (remote)"},
	})
}
