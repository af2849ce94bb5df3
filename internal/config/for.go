package config

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// For reads all ServiceGroups and LBNodeAgents of a cluster. Those in the
// namespace that PureLB is installed in count; those elsewhere are out of scope.
//
// The answer does not depend on the order of the arguments. Groups are accepted
// by their Standing, then in the order in which they were created, so that
// neither a new one nor an edited one takes another out of use, and each is
// refused or accepted as a whole.
func For(groups []v2.ServiceGroup, agents []v2.LBNodeAgent, installNamespace string) Config {
	var c Config
	c.readGroups(groups, installNamespace)
	c.readAgents(agents, installNamespace)
	slices.SortStableFunc(c.Problems, byObject)
	c.lookup = newLookup(c.Groups)
	return c
}

// inScope reports whether the object is in the namespace that counts. The impact
// is what follows where it is not.
func (f *findings) inScope(o metav1.ObjectMeta, resource, impact, installNamespace string) bool {
	if o.Namespace == installNamespace {
		return true
	}
	const format = "ignored, so %[5]s: namespace %[2]q is not the PureLB install namespace. Move it to %[4]q: " +
		"kubectl get %[1]s %[3]s -n %[2]s -o yaml | " +
		"sed -e '/^  uid:/d' -e '/^  resourceVersion:/d' -e 's/^  namespace: .*/  namespace: %[4]s/' | " +
		"kubectl apply -f - && kubectl delete %[1]s %[3]s -n %[2]s"
	f.refuse(ReasonOutOfScope, "metadata.namespace", format, resource, o.Namespace, o.Name, installNamespace, impact)
	return false
}
