package allocate_test

import (
	"testing"

	"purelb.io/purelb/internal/allocate"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/apitest"
)

func TestGroupsInConfigNamespacesAreUsed(t *testing.T) {
	w := newWorld(t)
	team := apitest.Namespace(t)
	own, theirs, only, away := w.local("web", "10.1.0.0/24", "10.1.0.0/24"), w.local("web", "10.2.0.0/24", "10.2.0.0/24"),
		w.local("db", "10.3.0.0/24", "10.3.0.0/24"), w.local("web", "10.4.0.0/24", "10.4.0.0/24")
	theirs.Namespace, only.Namespace, away.Namespace = team, team, "default"
	w.create(own, theirs, only, away)
	r := w.allocator(func(o *allocate.Options) { o.ConfigNamespaces = []string{team} })

	bare, qualified, other := balancer("bare", inGroup("web")), balancer("qualified", inGroup(team+"/web")), balancer("other", inGroup("db"))
	w.create(bare, qualified, other)
	w.has(bare, "10.1.0.1")
	w.annotation(bare, "purelb.io/allocated-from", "web")
	w.has(qualified, "10.2.0.1")
	w.annotation(qualified, "purelb.io/allocated-from", team+"/web")
	w.has(other, "10.3.0.1")
	w.annotation(other, "purelb.io/allocated-from", team+"/db")

	w.judged(own, "True", "Accepted")
	w.judged(theirs, "True", "Accepted")
	w.judged(away, "False", "OutOfScope", w.namespace)
	for pool, want := range map[string]float64{"web": 1, team + "/web": 1, team + "/db": 1} {
		r.counts(want, "purelb_address_pool_addresses_in_use", "pool="+pool)
	}
	r.counts(0, "purelb_servicegroups_out_of_scope", "namespace="+team, "name=web", "type=local")
	r.counts(1, "purelb_servicegroups_out_of_scope", "namespace=default", "name=web", "type=local")
}

func TestGroupsInAllNamespacesAreUsed(t *testing.T) {
	w := newWorld(t)
	away := w.local("away", "10.4.0.0/24", "10.4.0.0/24")
	away.Namespace = "default"
	w.create(away)
	w.allocator(func(o *allocate.Options) { o.ConfigNamespaces = []string{config.Everywhere} })
	w.allocate(balancer("svc", inGroup("away")), "10.4.0.1")
	w.judged(away, "True", "Accepted")
}
