package ipam_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// bounded is a cluster with these groups: a group for the namespace team, one for gold Services,
// one that enforces its namespace, one that Services must name, and two that are open to all
// Services.
func bounded(t *testing.T) ipam.Cluster {
	ten, five := int32(10), int32(5)
	with := func(name, pool string, change func(*groups.Group)) groups.Group {
		g := group(t, name, groups.AnnounceRemote, pool, pool)
		change(&g)
		return g
	}
	all := []groups.Group{
		with("default", "192.0.2.0/32", func(g *groups.Group) {}),
		with("team", "192.0.2.1/32", func(g *groups.Group) { g.Namespaces = []string{"team"} }),
		with("gold", "192.0.2.2/32", func(g *groups.Group) { g.ServiceSelector = labels.SelectorFromSet(labels.Set{"tier": "gold"}) }),
		with("bank", "192.0.2.3/32", func(g *groups.Group) { g.Namespaces, g.Enforce = []string{"bank"}, true }),
		with("named", "192.0.2.4/32", func(g *groups.Group) { g.ByName = true }),
		with("open5", "192.0.2.5/32", func(g *groups.Group) { g.Priority = &five }),
		with("open10", "192.0.2.6/32", func(g *groups.Group) { g.Priority = &ten }),
		with("plain", "192.0.2.7/32", func(g *groups.Group) {}),
	}
	fences := []groups.Boundary{all[3].Boundary}
	refused := []groups.RefusedGroup{{Namespace: "purelb-system", Name: "bad", Reason: "ParseError", Message: "the range is reversed"}}
	gs := groups.New(all, all, fences, refused)
	c := ipam.Cluster{Groups: gs, Store: ipam.NewStore(), Boundaries: ipam.BoundariesOf(gs, nil)}
	hold(t, c, "default/other", "192.0.2.6")
	return c
}

func TestSurveyListsEveryGroup(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*service.Request)
		want   string
	}{
		{"a Service that names no group", func(*service.Request) {}, `
1 default: it is called default, and no group is for this Service alone; 192.0.2.0
2 open10: it is open to all Services, with priority 10; pool "open10" exhausted: no available addresses for default/web (IPv4)
3 open5: it is open to all Services, with priority 5; 192.0.2.5
0 team: it is for other namespaces than "default"
0 gold: its serviceSelector does not match the labels of the Service
0 bank: namespace denied: ServiceGroup "bank" is for its own namespaces only (enforceNamespaces), and "default" is none of them; use another, or add the namespace to that group
0 named: only Services that name it get addresses from it (autoAssign: false)
0 plain: it has no priority and is not called default, so only Services that name it get addresses from it
0 purelb-system/bad: it is not accepted (ParseError): the range is reversed`},
		{"a Service of a namespace with a group", func(r *service.Request) { r.Namespace = "team" }, `
1 team: it is the only group for this Service; 192.0.2.1
0 default: groups that are for this Service alone come before it: "team"`},
		{"a Service that names a group", func(r *service.Request) { r.Group = "named" }, `
1 named: the Service names it by the annotation purelb.io/service-group; 192.0.2.4
0 default: the Service names "named"`},
		{"a Service of an enforced namespace", func(r *service.Request) { r.Namespace = "bank" }, `
1 bank: it is the only group for this Service; 192.0.2.3
0 default: namespace denied: Services of namespace "bank" may use only ServiceGroups that serve it (enforceNamespaces), and "default" does not; use another, or add the namespace to that group`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := service.Request{Namespace: "default", Name: "web", Families: []addr.Family{addr.V4}, Policy: service.All}
			tt.change(&r)
			c := bounded(t)
			var lines []string
			free := netip.Addr{}
			for _, s := range c.Survey(r, addr.V4) {
				line := fmt.Sprintf("%d %s: %s", s.Place, s.Group, s.Why)
				switch {
				case s.Free.IsValid():
					line += "; " + s.Free.String()
				case s.Lacks != "":
					line += "; " + s.Lacks
				}
				if !free.IsValid() {
					free = s.Free
				}
				lines = append(lines, line)
			}
			want := strings.Split(strings.TrimSpace(tt.want), "\n")
			if diff := cmp.Diff(want, lines[:len(want)]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := c.Choose(r).Result.Addresses; len(got) != 1 || got[0] != free {
				t.Errorf("the Service gets %v, but the survey says %s", got, free)
			}
		})
	}
}
