package config_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/groups"
)

const twoGroups = `
	default: {local: {v4pools: [{subnet: 192.0.2.0/24, pool: 192.0.2.128/25}, {subnet: 192.0.2.0/24, pool: 192.0.2.1-192.0.2.9}], v6pool: {subnet: "2001:db8::/64", pool: "2001:db8::/64"}}}
	virtual: {name: flat, subnet: 198.51.100.0/24, pool: 198.51.100.0/24, aggregation: /32}`

func TestGroupIsFoundByAddress(t *testing.T) {
	made := config.For(serviceGroups(t, twoGroups), nil, home)
	byHand := config.Config{Groups: groups.Groups{Usable: made.Groups.Usable}}
	tests := []struct{ addr, group, pool string }{
		{"192.0.2.0", "", ""},
		{"192.0.2.1", "default", "192.0.2.1-192.0.2.9"},
		{"192.0.2.9", "default", "192.0.2.1-192.0.2.9"},
		{"192.0.2.10", "", ""},
		{"192.0.2.127", "", ""},
		{"192.0.2.128", "default", "192.0.2.128/25"},
		{"192.0.2.255", "default", "192.0.2.128/25"},
		{"::ffff:192.0.2.128", "default", "192.0.2.128/25"},
		{"192.0.3.0", "", ""},
		{"198.51.100.7", "virtual", "198.51.100.0/24"},
		{"255.255.255.255", "", ""},
		{"::", "", ""},
		{"2001:db8::", "default", "2001:db8::/64"},
		{"2001:db8::ffff:ffff:ffff:ffff", "default", "2001:db8::/64"},
		{"2001:db8::1%eth0", "", ""},
		{"2001:db8:0:1::", "", ""},
	}
	for _, tt := range tests {
		for _, c := range []config.Config{made, byHand} {
			g, p, ok := c.Groups.GroupOf(netip.MustParseAddr(tt.addr))
			if g.Name != tt.group || p.Text != tt.pool || ok != (tt.group != "") {
				t.Errorf("%s is in %q of %q, %v; want %q of %q", tt.addr, p.Text, g.Name, ok, tt.pool, tt.group)
			}
		}
	}
	if _, _, ok := made.Groups.GroupOf(netip.Addr{}); ok {
		t.Error("a group contains the zero address")
	}
}

const someAgents = `
	b-rack: {local: {localInterface: eth1}, nodeSelector: {matchLabels: {rack: one}}}
	a-zone: {local: {localInterface: "("}, nodeSelector: {matchLabels: {zone: a}}}
	z-all:  {local: {}}
	y-none: {}
	x-odd:  {local: {localInterface: "["}}`

func TestNodeUsesTheFirstMatchingAgent(t *testing.T) {
	node := func(labels ...string) map[string]string {
		m := map[string]string{}
		for pair := range slices.Chunk(labels, 2) {
			m[pair[0]] = pair[1]
		}
		return m
	}
	tests := []struct {
		name          string
		agents        string
		node          map[string]string
		agent, broken string
	}{
		{"an agent with a node selector before one for all nodes", someAgents, node("rack", "one"), "b-rack", ""},
		{"a broken agent is not skipped", someAgents, node("zone", "a"), "", "a-zone"},
		{"a broken agent that is first by name", someAgents, node("zone", "a", "rack", "one"), "", "a-zone"},
		{"a broken agent for all nodes that is first by name", someAgents, node("zone", "b"), "", "x-odd"},
		{"an agent without local is skipped", "a: {}\nb: {local: {}}", nil, "b", ""},
		{"no agent for this node", `a: {local: {}, nodeSelector: {matchLabels: {zone: a}}}`, nil, "", ""},
		{"no agent at all", "", nil, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := config.For(nil, agents(t, tt.agents), home)
			if a, ok := c.AgentFor(tt.node); a.Name != tt.agent || ok != (tt.agent != "") {
				t.Errorf("the node uses %q, %v; want %q", a.Name, ok, tt.agent)
			}
			if a, ok := c.BrokenFor(tt.node); a.Name != tt.broken || ok != (tt.broken != "") {
				t.Errorf("broken is %q, %v; want %q", a.Name, ok, tt.broken)
			}
		})
	}
}

func TestExpressionMatchesWholeNames(t *testing.T) {
	tests := []struct {
		expression string
		yes, no    []string
	}{
		{"eth0", []string{"eth0"}, []string{"eth01", "veth0", "eth0.100", ""}},
		{"eth0|eth1", []string{"eth0", "eth1"}, []string{"eth0x", "xeth1"}},
		{"^eth0$", []string{"eth0"}, []string{"eth01"}},
		{"eth", nil, []string{"eth0"}},
		{"en.*", []string{"en", "enp3s0"}, []string{"veno"}},
		{`\Qeth0.1`, []string{"eth0.1"}, []string{"eth0x1", "eth0.10"}},
		{"(?i)ETH0", []string{"eth0"}, []string{"eth00"}},
	}
	for _, tt := range tests {
		c := config.For(nil, agents(t, "a: {local: {localInterface: '"+tt.expression+"'}}"), home)
		a, ok := c.AgentFor(nil)
		if !ok || a.LocalText != tt.expression {
			t.Fatalf("%q: %v", tt.expression, c.Problems)
		}
		for _, name := range tt.yes {
			if !a.Local.MatchString(name) {
				t.Errorf("%q does not match %q", tt.expression, name)
			}
		}
		for _, name := range tt.no {
			if a.Local.MatchString(name) {
				t.Errorf("%q matches %q", tt.expression, name)
			}
		}
	}
}

func TestRefusedGroupsKeepTheirReason(t *testing.T) {
	c := config.For(serviceGroups(t, `
		good: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.0/25}}, priority: 1, autoAssign: false}
		elsewhere/away: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: 192.0.2.128/25}}}
		bad: {remote: {v4pool: {subnet: 192.0.2.0/24, pool: oops}}}`), nil, home).
		Beside([]groups.Network{{Range: addr.Range{From: netip.MustParseAddr("192.0.2.0"), To: netip.MustParseAddr("192.0.2.127")}, What: "the pods"}}, nil)
	message := map[string]string{}
	for _, p := range c.Problems {
		if p.Severity == config.Refused {
			message[p.Name] = p.String()
		}
	}
	want := []groups.RefusedGroup{
		{Namespace: "elsewhere", Name: "away", OutOfScope: true, Reason: config.ReasonOutOfScope, Message: message["away"]},
		{Namespace: home, Name: "bad", Reason: config.ReasonParseError, Message: message["bad"]},
		{Namespace: home, Name: "good", Reason: config.ReasonClusterNetwork, Message: message["good"]},
	}
	if diff := cmp.Diff(want, c.Groups.Refused); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
