package selection

import (
	"errors"
	"fmt"
	"net/netip"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/pool"
)

// malformed refuses a request that no cluster can fulfil.
func (m *matter) malformed() []*Refusal {
	if m.r.Malformed != "" {
		return []*Refusal{{Metric: metricOther, Pool: noPool, Reason: ReasonBadRequest, Message: m.r.Malformed}}
	}
	for _, a := range m.r.Asked {
		if f := addr.FamilyOf(a); !m.r.Wants(f) {
			return []*Refusal{{Metric: metricOther, Pool: noPool, Reason: ReasonWrongFamily,
				Message: fmt.Sprintf("%s was asked for, but the Service has no %s: its ipFamilies are %s;"+
					" change ipFamilies and ipFamilyPolicy, or ask for another address", a, f, familyNames(m.r.Families))}}
		}
	}
	return nil
}

// refuse says why the Service cannot have a, which it asks for.
func (m *matter) refuse(a netip.Addr) *Refusal {
	g, p, ok := m.Config.GroupOf(a)
	if !ok {
		return &Refusal{Metric: metricOther, Pool: noPool, Reason: ReasonOutside,
			Message: fmt.Sprintf("%s was asked for, but is in no pool of any usable ServiceGroup; ask for another address, or add a pool that has it", a)}
	}
	if refusal := m.denied(g); refusal != nil {
		refusal.Message = fmt.Sprintf("%s was asked for: %s", a, refusal.Message)
		return refusal
	}
	refusal := &Refusal{Metric: metricOther, Pool: g.DisplayName()}
	if why, blocked := m.Book.Blocked(a); blocked {
		refusal.Reason, refusal.Message = ReasonReserved,
			fmt.Sprintf("%s was asked for, but is never given to a Service: %s; ask for another address", a, why)
		return refusal
	}
	if r, excluded := p.Excludes(a); excluded {
		refusal.Reason, refusal.Message = ReasonExcluded,
			fmt.Sprintf("%s was asked for, but ServiceGroup %q excludes %s; ask for another address", a, g.DisplayName(), r)
		return refusal
	}
	if p.Draining {
		refusal.Reason, refusal.Message = ReasonDraining,
			fmt.Sprintf("%s was asked for, but the range %s of ServiceGroup %q is being drained and gives out nothing new; ask for another address",
				a, p.Text, g.DisplayName())
		return refusal
	}
	var held *pool.HeldError
	if errors.As(m.refuses(a), &held) {
		return m.taken(held, g.DisplayName())
	}
	return nil
}
