package config

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// For reads all ServiceGroups and LBNodeAgents of a cluster. Only those in the namespace
// that PureLB is installed in count, and those in others, which the operator names. The
// name Everywhere stands for all namespaces.
//
// The answer does not depend on the order of the arguments. Groups are accepted by their
// Standing, and those of the same Standing in the order in which they were created. So
// neither a new group nor an edited one takes another out of use. Each group is accepted
// or refused as a whole.
func For(groups []v2.ServiceGroup, agents []v2.LBNodeAgent, installNamespace string, others ...string) Config {
	c := Config{}
	s := scope{installNamespace, others}
	c.readGroups(groups, s)
	c.readAgents(agents, s)
	slices.SortStableFunc(c.Problems, byObject)
	return c
}

// scope are the namespaces that count.
type scope struct {
	home   string
	others []string
}

// inScope reports whether the object is in a namespace that counts. The impact
// is what follows where it is not.
func (f *findings) inScope(o metav1.ObjectMeta, resource, impact string, s scope) bool {
	if InScope(o.Namespace, s.home, s.others) {
		return true
	}
	const format = "ignored, so %[5]s: namespace %[2]q is neither the PureLB install namespace nor in configNamespaces of the chart. Move it to %[4]q: " +
		"kubectl get %[1]s %[3]s -n %[2]s -o yaml | " +
		"sed -e '/^  uid:/d' -e '/^  resourceVersion:/d' -e 's/^  namespace: .*/  namespace: %[4]s/' | " +
		"kubectl apply -f - && kubectl delete %[1]s %[3]s -n %[2]s"
	f.refuse(ReasonOutOfScope, "metadata.namespace", format, resource, o.Namespace, o.Name, s.home, impact)
	return false
}
