package main

import (
	"github.com/spf13/cobra"

	"purelb.io/purelb/internal/explain"
)

// explainable is a kind of object that the command explains.
type explainable struct {
	kind, args, short, example string
	story                      func(explain.World, string) (explain.Story, error)
	// form accepts what names an object of this kind.
	form func(string) error
	// asksAllocator says that the allocator knows more about this kind.
	asksAllocator bool
}

var explainables = []explainable{
	{
		explain.OfService, "NAMESPACE/NAME", "Why this Service has this address, or none, and which node has it",
		"  kubectl purelb explain service default/web", explain.Service, isService, true,
	},
	{
		explain.OfIP, "ADDRESS", "Which group has this address, who holds it, and which node announces it",
		"  kubectl purelb explain ip 192.0.2.10", explain.IP, isAddress, true,
	},
	{
		explain.OfGroup, "NAME", "Whether this ServiceGroup is used, for whom it is, and how full it is",
		"  kubectl purelb explain group default", explain.Group, isName, true,
	},
	{
		explain.OfNode, "NAME", "What this node announces, and what keeps it from announcing",
		"  kubectl purelb explain node node-1", explain.Node, isName, false,
	},
}

// newExplain makes the command whose answers are sentences.
func newExplain(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain", Short: "Explain in sentences why something is as it is", Args: noArguments, RunE: help,
		Long: `Explain in sentences why something is as it is. The first line is the answer. The exit code
is 1 if it tells of a problem.`,
		Example: `  kubectl purelb explain service default/web
  kubectl purelb explain ip 192.0.2.10
  kubectl purelb explain group default
  kubectl purelb explain node node-1`,
	}
	for _, one := range explainables {
		c := o.command(one.kind+" "+one.args, one.short, "", one.example, oneArgument(one.form), func(w explain.World, args []string) (answer, bool, error) {
			s, err := one.story(w, args[0])
			return s, s.Problem, err
		})
		c.PreRun = func(_ *cobra.Command, args []string) {
			o.subject = &explain.Subject{Kind: one.kind, Name: args[0]}
			if one.asksAllocator {
				o.asksAllocator, o.noBGP = true, true
			}
		}
		cmd.AddCommand(c)
	}
	return cmd
}
