package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/config"
)

func TestNamespaceList(t *testing.T) {
	tests := []struct {
		text, want, watched, wrong string
	}{
		{"", "", "purelb-system", ""},
		{"team-a", "team-a", "purelb-system team-a", ""},
		{" team-b, team-a,team-b,", "team-a team-b", "purelb-system team-a team-b", ""},
		{"purelb-system", "purelb-system", "purelb-system", ""},
		{"*", "*", "all", ""},
		{"team-a,*", "* team-a", "all", ""},
		{"Team", "", "", `"Team" is not a namespace; write namespaces separated by commas, or * for all`},
		{"team-*", "", "", `"team-*" is not a namespace; write namespaces separated by commas, or * for all`},
	}
	for _, tt := range tests {
		got, err := config.Namespaces(tt.text)
		if tt.wrong != "" {
			if err == nil || err.Error() != tt.wrong {
				t.Errorf("%q: got %v", tt.text, err)
			}
			continue
		}
		watched := strings.Join(config.Watched(home, got), " ")
		if watched == "" {
			watched = "all"
		}
		if err != nil || strings.Join(got, " ") != tt.want || watched != tt.watched {
			t.Errorf("%q: got %q, %v, watched %s", tt.text, got, err, watched)
		}
	}
}

func TestOutsideGroupsCarryTheirNamespace(t *testing.T) {
	c := config.For(serviceGroups(t, `
		web: {remote: {v4pool: {subnet: 10.0.1.0/24, pool: 10.0.1.0/24}}}
		a/web: {remote: {v4pool: {subnet: 10.0.2.0/24, pool: 10.0.2.0/24}}}
		a/db: {name: oldname, remote: {v4pool: {subnet: 10.0.3.0/24, pool: 10.0.3.0/24}}}
		a/twin: {remote: {v4pool: {subnet: 10.0.4.0/24, pool: 10.0.4.0/24}}}
		b/twin: {remote: {v4pool: {subnet: 10.0.5.0/24, pool: 10.0.5.0/24}}}
		b/bad: {remote: {v4pool: {subnet: 10.0.6.0/24, pool: 10.0.66.0/24}}}
		a/bad: {remote: {v4pool: {subnet: 10.0.7.0/24, pool: 10.0.7.0/24}}}
		c/away: {remote: {v4pool: {subnet: 10.0.8.0/24, pool: 10.0.8.0/24}}}
		hidden: {remote: {v4pool: {subnet: 10.0.9.0/24, pool: 10.0.99.0/24}}}
		a/hidden: {remote: {v4pool: {subnet: 10.0.10.0/24, pool: 10.0.10.0/24}}}`), nil, home, "a", "b")
	tests := []struct{ name, want, ambiguous string }{
		{"web", "web", ""},
		{"purelb-system/web", "web", ""},
		{"a/web", "a/web", ""},
		{"db", "a/oldname", ""},
		{"a/db", "a/oldname", ""},
		{"oldname", "a/oldname", ""},
		{"a/oldname", "a/oldname", ""},
		{"twin", "", "a/twin b/twin"},
		{"a/twin", "a/twin", ""},
		{"b/twin", "b/twin", ""},
		{"bad", "", "a/bad b/bad"}, // the meaning of a name does not depend on which groups are valid
		{"a/bad", "a/bad", ""},
		{"b/bad", "", ""},
		{"away", "", ""},
		{"c/away", "", ""},
		{"hidden", "", ""}, // the group of the install namespace, which is refused
		{"a/hidden", "a/hidden", ""},
		{"nowhere", "", ""},
	}
	for _, tt := range tests {
		g, ok := c.Groups.Group(tt.name)
		if got := g.DisplayName(); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s is %q, %t", tt.name, got, ok)
		}
		if got := strings.Join(c.Groups.Ambiguous(tt.name), " "); got != tt.ambiguous {
			t.Errorf("%s is ambiguous: %s", tt.name, got)
		}
	}
}

func TestEverywhereMeansAllNamespaces(t *testing.T) {
	all := serviceGroups(t, `
		web: {remote: {v4pool: {subnet: 10.0.1.0/24, pool: 10.0.1.0/24}}}
		a/web: {remote: {v4pool: {subnet: 10.0.2.0/24, pool: 10.0.2.0/24}}}
		a/late: {remote: {v4pool: {subnet: 10.0.1.0/24, pool: 10.0.1.8/29}}}`)
	names := func(c config.Config) (names []string) {
		for _, g := range c.Groups.Usable {
			names = append(names, g.Ref())
		}
		return names
	}
	if diff := cmp.Diff([]string{"web", "a/web"}, names(config.For(all, nil, home, config.Everywhere))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"web"}, names(config.For(all, nil, home, "b"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	overlap := config.For(all, nil, home, config.Everywhere).Problems
	if len(overlap) != 1 || !strings.Contains(overlap[0].Message, `already defined pool "web"`) {
		t.Errorf("got %v", overlap)
	}
}

func TestAgentOfTheInstallNamespaceComesFirst(t *testing.T) {
	all := agents(t, "a: {local: {dummyInterface: near}}\nb: {local: {dummyInterface: far}}")
	all[1].Namespace = "aaa"
	for _, tt := range []struct {
		others []string
		want   string
	}{{nil, "near"}, {[]string{"aaa"}, "near"}} {
		c := config.For(nil, all, home, tt.others...)
		if agent, ok := c.AgentFor(nil); !ok || agent.Dummy != tt.want || len(c.Agents) != 1+len(tt.others) {
			t.Errorf("%q: got %+v, %t of %d", tt.others, agent, ok, len(c.Agents))
		}
	}
	c := config.For(nil, all[1:], home, "aaa")
	if agent, ok := c.AgentFor(nil); !ok || agent.Dummy != "far" {
		t.Errorf("got %+v, %t", agent, ok)
	}
}
