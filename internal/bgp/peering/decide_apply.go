package peering

import (
	"fmt"
	"slices"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// application holds the policies of a neighbor.
type application struct{ imports, exports assignment }

// assignment is a list of valid policies, and the verdict on all other routes.
type assignment struct {
	policies []string
	rest     Verdict
}

// key identifies an assignment, also in messages.
func (a assignment) key() string {
	if a.rest == Continue {
		return fmt.Sprintf("%q", a.policies)
	}
	return fmt.Sprintf("%q, else %s", a.policies, a.rest)
}

func (a assignment) empty() bool { return len(a.policies) == 0 && a.rest == Continue }

func (v Verdict) String() string {
	switch v {
	case Accept:
		return "accept"
	case Reject:
		return "reject"
	default:
		return "continue"
	}
}

// applied reads the policies of a neighbor. If a policy is wrong, the neighbor cannot be used: the
// node announces nothing to it without its policies.
func (r *reader) applied(ls layers) (application, bool) {
	var out application
	imports, from := firstSet(ls, func(l layer) *bgpv1.PolicyAssignment { return value(l.options.ApplyPolicy).ImportPolicy })
	okImports := r.assigned(from.path+".applyPolicy.importPolicy", imports, &out.imports, r.refuseBy)
	exports, from := firstSet(ls, func(l layer) *bgpv1.PolicyAssignment { return value(l.options.ApplyPolicy).ExportPolicy })
	okExports := r.assigned(from.path+".applyPolicy.exportPolicy", exports, &out.exports, r.refuseBy)
	return out, okImports && okExports
}

// appliedToAll reads the policies for all neighbors. If one of these policies is wrong, there is no
// State at all.
func (r *reader) appliedToAll() application {
	const field = "spec.global.applyPolicy"
	var out application
	fatal := func(p Problem) bool {
		p.Fatal = true
		r.add(p)
		return false
	}
	in := value(r.spec.Global.ApplyPolicy)
	r.assigned(field+".importPolicy", in.ImportPolicy, &out.imports, fatal)
	r.assigned(field+".exportPolicy", in.ExportPolicy, &out.exports, fatal)
	return out
}

// assigned reads one direction, and calls refuse for each mistake.
func (r *reader) assigned(field string, in *bgpv1.PolicyAssignment, out *assignment, refuse func(Problem) bool) bool {
	if in == nil {
		return true
	}
	ok := true
	for i, name := range in.Policies {
		field := at(field+".policies", i)
		p, there := r.policies[name]
		switch {
		case !there:
			ok = refuse(Problem{Field: field, Reason: ReasonNotFound, Message: "there is no policy " + quote(name) + " in spec.policyDefinitions"})
		case !p.ok:
			ok = refuse(Problem{Field: field, Reason: ReasonNotFound, Message: "the policy " + quote(name) + " has a mistake (see " + p.path + ")"})
		case slices.Contains(out.policies, name):
			r.note(field, ReasonDuplicate, "%s is there twice: remove one", quote(name))
		default:
			out.policies = append(out.policies, name)
		}
	}
	if n := r.growth(out.policies); n > mostGrowth {
		ok = refuse(Problem{Field: field + ".policies", Reason: ReasonParseError, Message: fmt.Sprintf(
			"the policies can add %d bytes to a route, and %d are possible: add fewer communities, or prepend fewer ASes", n, mostGrowth,
		)})
	}
	var known bool
	if out.rest, known = verdictOf(in.DefaultAction); !known {
		ok = refuse(Problem{
			Field: field + ".defaultAction", Reason: ReasonParseError,
			Message: quote(in.DefaultAction) + " is neither accept nor reject",
		})
	}
	return ok
}
