package config

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
)

// For reads all ServiceGroups and LBNodeAgents of a cluster. It uses only those in installNamespace
// and in others, the further namespaces that the operator names. Everywhere in others means all
// namespaces.
//
// The result does not depend on the order of the arguments. For accepts groups in the order of
// their Standing, and then of their creation. So neither a new group nor an edited one puts another
// group out of use. Each group is accepted or refused as a whole.
func For(groups []v2.ServiceGroup, agents []v2.LBNodeAgent, installNamespace string, others ...string) Config {
	c := Config{}
	s := scope{installNamespace, others}
	c.readGroups(groups, s)
	c.readAgents(agents, s)
	slices.SortStableFunc(c.Problems, byObject)
	return c
}

// moveIt begins the commands that move an object to the install namespace.
const moveIt = ". Move it to "

// Guessed removes the commands that move objects from the messages of c, and says instead that the
// install namespace is a guess. The commands delete, and must not do so because of a guess.
func (c *Config) Guessed(hint string) {
	without := func(message *string) {
		if text, _, found := strings.Cut(*message, moveIt); found {
			*message = text + ". " + hint
		}
	}
	for i := range c.Problems {
		without(&c.Problems[i].Message)
	}
	for i := range c.Groups.Refused {
		without(&c.Groups.Refused[i].Message)
	}
}

// scope holds the namespaces whose objects PureLB uses.
type scope struct {
	home   string
	others []string
}

// inScope reports whether PureLB uses objects in the namespace of o. If not, inScope refuses the
// object; impact is the consequence.
func (f *findings) inScope(o metav1.ObjectMeta, resource, impact string, s scope) bool {
	if InScope(o.Namespace, s.home, s.others) {
		return true
	}
	const format = "ignored, so %[5]s: namespace %[2]q is not the PureLB install namespace, and not in configNamespaces of the chart" + moveIt + "%[4]q: " +
		"kubectl get %[1]s %[3]s -n %[2]s -o yaml | " +
		"sed -e '/^  uid:/d' -e '/^  resourceVersion:/d' -e 's/^  namespace: .*/  namespace: %[4]s/' | " +
		"kubectl apply -f - && kubectl delete %[1]s %[3]s -n %[2]s"
	f.refuse(ReasonOutOfScope, "metadata.namespace", format, resource, o.Namespace, o.Name, s.home, impact)
	return false
}
