package allocator

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"purelb.io/purelb/internal/census"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// kubectl-purelb prints census.Plan. So for any Services, the plan must equal the decisions of a
// new allocator.
func TestPlanMatchesTheAllocator(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"":          func(*rapid.T) { m.comparePlan() },
			"create":    func(*rapid.T) { m.create(m.anyone()) },
			"edit":      func(*rapid.T) { m.change(m.anyone(), m.want) },
			"interfere": func(*rapid.T) { m.interfere(m.anyone()) },
			"strip":     func(*rapid.T) { m.strip(m.anyone()) },
			"remove":    func(*rapid.T) { m.remove(m.anyone()) },
			"look": func(*rapid.T) {
				who := m.anyone()
				m.sync(who)
				m.look(who, "done")
			},
			"pools": func(*rapid.T) {
				m.someGroups()
				m.configure()
			},
		})
	})
}

// comparePlan fails if the decisions of a new allocator differ from the plan.
func (m *model) comparePlan() {
	var requests []service.Request
	for _, svc := range m.live {
		if svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
			requests = append(requests, service.Read(svc, m.byDefault))
		}
	}
	s := m.state()
	plan := census.State{Config: s.config, Subnets: s.subnets, Blocked: s.blocked, Networks: s.networks, Boundaries: s.boundaries}.Plan(requests)
	l := newAllocations(func(...ipam.Owner) {})
	l.change(s)
	l.open(requests)
	for _, r := range plan.Requests {
		planned, served := plan.Choices[owner(r)]
		r, standing := l.identify(r)
		if served != (standing == ours) {
			m.t.Fatalf("%s: planned %t, and its standing is %d", r.Key(), served, standing)
		}
		if !served {
			continue
		}
		d, err := l.decide(r)
		if err != nil {
			m.t.Fatal(err)
		}
		if !slices.Equal(d.Result.Addresses, planned.Result.Addresses) || d.Result.Reason != planned.Result.Reason || d.Result.Message != planned.Result.Message {
			m.t.Fatalf("%s\nis planned to get %v, %s: %s\nbut gets          %v, %s: %s", r.Key(),
				planned.Result.Addresses, planned.Result.Reason, planned.Result.Message, d.Result.Addresses, d.Result.Reason, d.Result.Message)
		}
	}
}
