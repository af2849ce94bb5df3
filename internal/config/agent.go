package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
)

// defaultDummy is the name of the dummy interface when none is written.
const defaultDummy = "kube-lb0"

// defaultInterface means the interface of the default route. allInterfaces means
// every interface that leads to a network. The kernel gives neither name to an
// interface.
const defaultInterface, allInterfaces = "default", "all"

// readAgents reads agents, and sorts them into usable and broken ones.
func (c *Config) readAgents(agents []v2.LBNodeAgent, s scope) {
	for _, a := range agents {
		f := findingsOf(KindLBNodeAgent, a.ObjectMeta)
		if f.inScope(a.ObjectMeta, "lbnodeagent", "no node uses it", s) {
			c.readAgent(f, a, a.Namespace != s.home)
		}
		c.Problems = append(c.Problems, f.problems...)
	}
	slices.SortFunc(c.Agents, precedence)
	slices.SortFunc(c.Broken, precedence)
}

// precedence orders the agents of a node. The first criterion is spec.local: agents with it come
// first. Then come agents for some nodes, before agents for all nodes. Then come agents of the
// install namespace. The last criterion is the name.
func precedence(a, b Agent) int {
	return cmp.Or(
		falseFirst(a.Implied, b.Implied), falseFirst(a.Selector.Empty(), b.Selector.Empty()), falseFirst(a.Outside, b.Outside),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
	)
}

// falseFirst orders false before true.
func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func (c *Config) readAgent(f *findings, a v2.LBNodeAgent, outside bool) {
	selector, ok := f.selector(a.Spec.NodeSelector)
	if !ok {
		return // without a selector, the nodes of the agent are unknown
	}
	agent := Agent{
		Namespace: a.Namespace, Name: a.Name, Outside: outside, UID: a.UID, Selector: selector,
		Implied: a.Spec.Local == nil,
	}
	if agent.Implied {
		f.warn(ReasonAdjusted, "spec.local", "is missing, so this LBNodeAgent asks for nothing: "+
			"nodes for which there is no other use the defaults, as with local: {}")
	}
	f.interfaces(&agent, cmp.Or(a.Spec.Local, &v2.InterfaceSpec{}))
	if f.refused() {
		c.Broken = append(c.Broken, agent)
		return
	}
	c.Agents = append(c.Agents, agent)
}

// selector returns the node selector. Without s it selects all nodes.
func (f *findings) selector(s *metav1.LabelSelector) (labels.Selector, bool) {
	if s == nil {
		return labels.Everything(), true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		f.refuse(ReasonParseError, "spec.nodeSelector", "%v: correct it, or remove it to select every node", err)
		return nil, false
	}
	return selector, true
}

// interfaces reads everything below spec.local.
func (f *findings) interfaces(a *Agent, s *v2.InterfaceSpec) {
	a.LocalText, a.Local = f.local(s)
	a.All = a.LocalText == allInterfaces
	a.Dummy = f.dummy(s)
	for _, name := range s.Interfaces {
		if name := string(name); name != a.Dummy && !slices.Contains(a.Interfaces, name) {
			a.Interfaces = append(a.Interfaces, name)
		}
	}
	a.Networks = f.further(s.Networks)
	a.ProtectNode = s.ProtectNode == nil || *s.ProtectNode
	a.GARP = f.garp(s)
	config := cmp.Or(s.AddressConfig, &v2.AddressConfig{})
	a.LocalAddress = f.address("localInterface", config.LocalInterface, localDefaults)
	a.RemoteAddress = f.address("dummyInterface", config.DummyInterface, remoteDefaults)
}

// local reads which interfaces carry local addresses.
func (f *findings) local(s *v2.InterfaceSpec) (string, *regexp.Regexp) {
	field, text := f.renamed("localInterface", s.LocalInterface, "localint", s.LocalInt)
	switch text {
	case "", defaultInterface:
		return defaultInterface, nil
	case allInterfaces:
		return allInterfaces, nil
	}
	re, err := wholeName(text)
	if err != nil {
		f.refuse(ReasonParseError, field, "%s is not a regular expression: %s; write the name of an interface, "+
			`an expression in the syntax of Go such as eth[0-9]+, "default" or "all"`, addr.Quote(text), fault(err))
	}
	return text, re
}

// wholeName compiles an expression that matches a whole name or nothing. It parses text alone
// before it adds the anchors, because text such as "a)(b" or "\Qa" must not change their meaning.
func wholeName(text string) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	return regexp.Compile("^(?:" + parsed.String() + ")$")
}

// fault returns the error of an expression without the expression itself.
func fault(err error) string {
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		return e.Code.String()
	}
	return err.Error()
}

// dummy reads the name of the interface for remote addresses.
func (f *findings) dummy(s *v2.InterfaceSpec) string {
	field, name := f.renamed("dummyInterface", string(s.DummyInterface), "extlbint", string(s.ExtLBInt))
	if name == "" {
		return defaultDummy
	}
	if !validName(name) {
		f.refuse(ReasonParseError, field, "%q cannot be the name of an interface: "+
			"it has 1 to 15 characters, without spaces, '/' and ':'", name)
	}
	return name
}

// renamed returns the value of a field that also has an older name, and the path of
// the field that the value came from. The newer name takes precedence.
func (f *findings) renamed(name, value, oldName, oldValue string) (field, result string) {
	const base = "spec.local."
	if value == "" {
		return base + oldName, oldValue
	}
	if oldValue != "" && oldValue != value {
		f.warn(ReasonAdjusted, base+oldName, "%q is not in effect, because %s is set to %q: remove one of them",
			oldValue, name, value)
	}
	return base + name, value
}

// further reads the list of further networks.
func (f *findings) further(networks []v2.Subnet) (result []netip.Prefix) {
	for i, text := range networks {
		field := fmt.Sprintf("spec.local.networks[%d]", i)
		p, err := addr.ParseCIDR(string(text))
		switch network := p.Masked(); {
		case err != nil:
			f.warn(ReasonAdjusted, field, "%v; until then it is left out", err)
		case p.Bits() == 0 || !network.Addr().IsGlobalUnicast():
			f.warn(ReasonAdjusted, field, "%s is left out, because machines on a segment cannot have its addresses: "+
				"write a network that the router has there, such as 203.0.113.0/28", p)
		case slices.Contains(result, network):
		default:
			if p != network {
				f.warn(ReasonAdjusted, field, "%s counts as the network %s: write that", p, network)
			}
			result = append(result, network)
		}
	}
	return result
}

// validName reports whether the kernel accepts name for an interface
// (dev_valid_name in net/core/dev.c).
func validName(name string) bool {
	return name != "" && len(name) < 16 && name != "." && name != ".." && !strings.ContainsAny(name, "/: \t\n\v\f\r")
}

// AgentFor returns the Agent in force on a node with these labels: the first one
// that selects the node. There is none if no Agent selects the node, or if the
// first one is broken.
func (c Config) AgentFor(node map[string]string) (Agent, bool) {
	agent, ok := first(c.Agents, node)
	if broken, bad := first(c.Broken, node); bad && (!ok || precedence(broken, agent) < 0) {
		return Agent{}, false
	}
	return agent, ok
}

// BrokenFor returns the Agent that would be in force on a node with these labels if
// it were usable. Only its name and selector are certain. Such a node does not fall
// back to another Agent, because a typing error must not move its addresses to
// other interfaces.
func (c Config) BrokenFor(node map[string]string) (Agent, bool) {
	broken, bad := first(c.Broken, node)
	if agent, ok := first(c.Agents, node); ok && bad && precedence(agent, broken) < 0 {
		return Agent{}, false
	}
	return broken, bad
}

func first(agents []Agent, node map[string]string) (Agent, bool) {
	for _, a := range agents {
		if a.Selector.Matches(labels.Set(node)) {
			return a, true
		}
	}
	return Agent{}, false
}
