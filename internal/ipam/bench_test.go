package ipam_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// busyCluster has 200 groups, some for their own namespaces and some for all, and 10,000
// Services with an address.
func busyCluster(b *testing.B) ipam.Cluster {
	b.Helper()
	spaces := map[string]map[string]string{"default": {}}
	var groups []v2.ServiceGroup
	for i := range 200 {
		ns, text := fmt.Sprintf("ns-%d", i), fmt.Sprintf("10.%d.0.0/16", i)
		spaces[ns] = map[string]string{"team": ns}
		g := v2.ServiceGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "purelb-system", Name: fmt.Sprintf("group-%d", i)}}
		g.Spec.Remote = &v2.RemoteSpec{}
		g.Spec.Remote.V4Pool = &v2.AddressPool{Pool: v2.Range(text), Subnet: v2.Subnet(text)}
		switch {
		case i == 0:
			g.Name = "default"
		case i < 50:
			g.Spec.Priority = new(int32)
		case i < 100:
			g.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: spaces[ns]}
		default:
			g.Spec.Namespaces = []v2.Namespace{v2.Namespace(ns)}
		}
		groups = append(groups, g)
	}
	c := ipam.Cluster{Groups: config.For(groups, nil, "purelb-system").Groups, Store: ipam.NewStore()}
	for i, g := range c.Groups.Usable {
		for range 50 {
			a, _ := c.Store.Next(g.Pools[0])
			if err := c.Store.Hold(a, ipam.Owner(fmt.Sprintf("ns-%d/%s", i, a)), false); err != nil {
				b.Fatal(err)
			}
		}
	}
	c.Boundaries = ipam.BoundariesOf(c.Groups, spaces)
	return c
}

func BenchmarkChoose(b *testing.B) {
	c := busyCluster(b)
	for name, request := range map[string]service.Request{
		"new":                      web("4"),
		"new_in_a_bound_namespace": web("4", in("ns-150")),
		"kept":                     web("4", in("ns-150"), holding("10.150.1.1"), from("group-150", "remote")),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if choice := c.Choose(request); !choice.Result.Allocated {
					b.Fatal(show(choice))
				}
			}
		})
	}
}

func BenchmarkBoundariesOf(b *testing.B) {
	c := busyCluster(b)
	spaces := map[string]map[string]string{}
	for i := range 1000 {
		spaces[fmt.Sprintf("ns-%d", i)] = map[string]string{"team": fmt.Sprintf("ns-%d", i)}
	}
	for b.Loop() {
		ipam.BoundariesOf(c.Groups, spaces)
	}
}
