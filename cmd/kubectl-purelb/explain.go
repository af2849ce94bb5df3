package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/explain"
)

// explainable is a type of object that the command explains. Its names are those that kubectl takes.
type explainable struct {
	kind, short string
	names       []string
	story       func(explain.World, string) (explain.Story, error)
	// form accepts what names an object of this type.
	form func(string) error
	// configures says that objects of this type are in PureLB's namespace, unless -n names another.
	configures bool
	// asksAllocator says that the allocator knows more about this type. noBGP says that it does not
	// depend on BGP.
	asksAllocator, noBGP bool
	// complete returns the names of all objects of this type.
	complete func(explain.World) []string
}

var explainables = []explainable{
	{
		kind: explain.OfService, names: []string{"services", "svc"}, short: "Why this Service has this address, or none, and which node has it",
		story: explain.Service, form: isService, asksAllocator: true, noBGP: true, complete: serviceNames,
	},
	{
		kind: explain.OfIP, short: "Which group has this address, who holds it, and which node announces it",
		story: explain.IP, form: isAddress, asksAllocator: true, noBGP: true, complete: addresses,
	},
	{
		kind: explain.OfGroup, names: []string{"sg", "servicegroup", "servicegroups"}, short: "Whether this ServiceGroup is used, for whom it is, and how full it is",
		story: explain.Group, form: isName, configures: true, noBGP: true, complete: groupNames,
	},
	{
		kind: explain.OfNode, names: []string{"nodes", "no"}, short: "What this node announces, and what keeps it from announcing",
		story: explain.Node, form: isName, complete: nodeNames,
	},
	{
		kind: "lbnodeagent", names: []string{"lbnodeagents", "lbna"}, short: "Which nodes this LBNodeAgent is in force on, and what is wrong with it",
		story: explain.NodeAgent, form: isName, configures: true, noBGP: true, complete: agentNames,
	},
	{
		kind: "bgpconfiguration", names: []string{"bgpconfigurations", "bgpconfig", "bgp", "config", "configs"}, short: "Which nodes this BGPConfiguration is in force on, and what is wrong with it",
		story: explain.Configuration, form: isName, configures: true, complete: configurationNames,
	},
}

// explainableOf returns the type of that name. As in kubectl, a name may end with the API group.
func explainableOf(name string) (explainable, error) {
	short, _, _ := strings.Cut(strings.ToLower(name), ".")
	var known []string
	for _, one := range explainables {
		if one.kind == short || slices.Contains(one.names, short) {
			return one, nil
		}
		known = append(known, one.kind)
	}
	return explainable{}, fmt.Errorf("%q is no type that can be explained; there are %s", name, strings.Join(known, ", "))
}

// newExplain makes the command whose answers are sentences.
func newExplain(o *options) *cobra.Command {
	var one explainable
	cmd := o.answering(&cobra.Command{
		Use: "explain (TYPE NAME | TYPE/NAME)", Short: "Explain in sentences why something is as it is", ValidArgsFunction: o.completeSubject,
		Long: "Explain in sentences why something is as it is. The first line is the answer. The exit code\nis 1 if it tells of a problem. The types are:\n",
		Example: `  kubectl purelb explain service web -n default
  kubectl purelb explain svc/web
  kubectl purelb explain service default/web
  kubectl purelb explain ip 192.0.2.10
  kubectl purelb explain group default
  kubectl purelb explain node node-1
  kubectl purelb explain lbna/default`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if len(args) == 0 {
				return nil
			}
			if one, o.subject, err = o.subjectOf(args); err != nil {
				return withHelp(cmd, err)
			}
			o.asksAllocator, o.noBGP = one.asksAllocator, one.noBGP
			if one.kind == explain.OfService && (o.output == "wide" || cmd.Name() == inspect) {
				one.story, o.endpointsOf = explain.Inspect, o.subject.Name
			}
			return one.form(o.subject.Name)
		},
	}, func(w explain.World, _ []string) (answer, bool, error) {
		if one.configures && !strings.Contains(o.subject.Name, "/") {
			if in := o.scope(w); in != "" {
				o.subject.Name = in + "/" + o.subject.Name
			}
		}
		s, err := one.story(w, o.subject.Name)
		return s, s.Problem, err
	})
	for _, one := range explainables {
		cmd.Long += fmt.Sprintf("\n  %-17s %s", one.kind, one.short)
		if len(one.names) > 0 {
			cmd.Long += " (" + strings.Join(one.names, ", ") + ")"
		}
	}
	withArguments := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return withArguments(cmd, args)
	}
	return cmd
}

// inspect is the earlier name of "explain service NAME -o wide".
const inspect = "inspect"

func newInspect(o *options) *cobra.Command {
	explains := newExplain(o)
	return &cobra.Command{
		Use: inspect + " NAME", Short: "Explain a Service with its endpoints",
		Long: `Explain a Service with its endpoints, as "explain service NAME -o wide" does. With -o json and
yaml there is also all that is known of it, part by part. The exit code is 1 if there is a
problem.`,
		Example: `  kubectl purelb inspect web -n default
  kubectl purelb inspect default/web -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := oneArgument(isName)(cmd, args); err != nil {
				return err
			}
			return explains.Args(cmd, []string{explain.OfService, args[0]})
		},
		RunE: explains.RunE,
	}
}

// subjectOf returns what the arguments name: TYPE and NAME, or TYPE/NAME.
func (o *options) subjectOf(args []string) (explainable, *explain.Subject, error) {
	kind, name, named := strings.Cut(args[0], "/")
	if len(args) == 2 {
		kind, name, named = args[0], args[1], true
	}
	one, err := explainableOf(kind)
	switch {
	case err != nil:
		return one, nil, err
	case !named || len(args) > 2:
		return one, nil, fmt.Errorf("explain needs TYPE NAME or TYPE/NAME, but the arguments are %q", args)
	}
	if one.kind == explain.OfService {
		name = o.inNamespace(name)
	}
	return one, &explain.Subject{Kind: one.kind, Name: name}, nil
}

// inNamespace returns "namespace/name". As in kubectl, the namespace is that of -n, or otherwise of
// the context.
func (o *options) inNamespace(name string) string {
	if name == "" || strings.Contains(name, "/") {
		return name
	}
	namespace, _, err := o.kube.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return name
	}
	return namespace + "/" + name
}

// isService accepts the name of a Service, with its namespace or without.
func (o *options) isService(name string) error { return isService(o.inNamespace(name)) }

// scope returns the namespace that lists show, or "" for all. It is not that of PureLB, because
// scripts for earlier versions name that one by -n. Where files do not show which one it is, a note
// says so.
func (o *options) scope(w explain.World) string {
	in := *o.kube.Namespace
	if o.everywhere || in == w.Namespace {
		return ""
	}
	if in != "" && w.Guessed && len(o.files) > 0 {
		fmt.Fprintf(o.errs, "note: nothing shows where PureLB is; the answer is only about namespace %[1]s, because -n names it; if PureLB is there, use --purelb-namespace %[1]s\n", in)
	}
	return in
}

// completeSubject completes the arguments of explain: types, and the names of one type.
func (o *options) completeSubject(cmd *cobra.Command, args []string, word string) (all []string, _ cobra.ShellCompDirective) {
	kind, _, typed := strings.Cut(word, "/")
	prefix := kind + "/"
	switch {
	case len(args) > 0:
		kind, prefix = args[0], ""
	case !typed:
		for _, one := range explainables {
			all = append(all, one.kind+"\t"+one.short)
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
	one, err := explainableOf(kind)
	if err != nil || len(args) > 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, directive := o.complete(one.complete)(cmd, args, word)
	for _, name := range names {
		all = append(all, prefix+name)
	}
	return all, directive
}
