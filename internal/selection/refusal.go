package selection

import (
	"fmt"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/pool"
	"purelb.io/purelb/internal/service"
)

// Refusal is why something was not given.
type Refusal struct {
	// Metric is the reason, and Pool the group, that the refusal counts for.
	Metric, Pool string
	// Reason and Message are for the Service's condition.
	Reason, Message string

	// needs are what would have to be otherwise.
	needs []Need
	// lacking says that the Service asks for nothing wrong: what it wants is
	// not there.
	lacking bool
}

// The reasons that refusals are counted by.
const (
	metricExhausted = "exhausted"
	metricPort      = "port_conflict"
	metricKey       = "sharing_key_conflict"
	metricMultiPool = "multipool_refused"
	metricMismatch  = "multipool_pool_mismatch"
	metricDenied    = "namespace_denied"
	metricAmbiguous = "ambiguous_namespace_default"
	metricNoPool    = "no_usable_pool"
	metricUnknown   = "unknown_pool"
	metricOther     = "other"
)

// noPool is the group that a refusal counts for if none was named.
const noPool = "<none>"

// unknownPool is the group that a refusal counts for if it cannot be told, or is
// none that there is: what a Service may name is without bounds, and need not be
// text that a metric can have.
const unknownPool = "<unknown>"

// merge makes one refusal of several.
func merge(refusals []*Refusal) *Refusal {
	if len(refusals) == 0 {
		return nil
	}
	one := *refusals[0]
	messages := []string{one.Message}
	for _, r := range refusals[1:] {
		if !slices.Contains(messages, r.Message) {
			messages = append(messages, r.Message)
		}
		one.needs = slices.Concat(one.needs, r.needs)
		one.lacking = one.lacking && r.lacking
	}
	one.Message = strings.Join(messages, "; ")
	return &one
}

// exhausted says that groups have no address of family f left.
func (m *matter) exhausted(groups []*config.Group, f addr.Family) *Refusal {
	able := slices.DeleteFunc(slices.Clone(groups), func(g *config.Group) bool { return !m.has(g, f) })
	if len(able) == 0 {
		verb := "has"
		if len(groups) > 1 {
			verb = "have"
		}
		return &Refusal{Metric: metricNoPool, Pool: groups[0].DisplayName(), Reason: ReasonNoPool, lacking: true, Message: fmt.Sprintf(
			"%s %s no %s range: no available addresses for %s; add one, or change the ipFamilies of the Service", pools(groups), verb, f, m.r.Key())}
	}
	refusal := &Refusal{Metric: metricExhausted, Pool: able[0].DisplayName(), Reason: ReasonExhausted, lacking: true, Message: fmt.Sprintf(
		"%s exhausted: no available addresses for %s (%s)", pools(able), m.r.Key(), f)}
	var drained, skipped int
	for _, g := range able {
		d, s := m.idle(*g, f)
		drained, skipped = drained+d, skipped+s
		if d+s < len(m.poolsOf(*g, f)) {
			refusal.needs = append(refusal.needs, Need{Group: g.Name, Family: f})
		}
	}
	if skipped > 0 {
		refusal.Metric, refusal.Reason = metricMultiPool, ReasonMultiPool
		refusal.Message = fmt.Sprintf("no IPs allocated for service %s: %d ranges skipped (no active nodes); no available addresses in %s (%s)",
			m.r.Key(), skipped, pools(able), f)
	}
	if drained > 0 {
		refusal.Message += fmt.Sprintf("; %d of its ranges are being drained", drained)
	}
	return refusal
}

// idle counts the pools of g of family f that have nothing to give, whether they
// are full or not: those that are drained, and those that no node is home to.
func (m *matter) idle(g config.Group, f addr.Family) (drained, skipped int) {
	for _, p := range m.poolsOf(g, f) {
		switch {
		case p.Draining:
			drained++
		case m.multi(g) && m.homeless(g, p):
			skipped++
		}
	}
	return drained, skipped
}

// has reports whether g has a pool of family f.
func (m *matter) has(g *config.Group, f addr.Family) bool {
	return slices.ContainsFunc(g.Pools, func(p pool.Pool) bool { return p.Family() == f })
}

// unknown says why there is no group called name, which the Service names.
func (m *matter) unknown(name string) *Refusal {
	if refusal := m.unusable(name); refusal != nil {
		return refusal
	}
	return &Refusal{Metric: metricUnknown, Pool: unknownPool, Reason: ReasonUnknown,
		Message: fmt.Sprintf("unknown pool %s: there is no ServiceGroup of that name; create it, or change the annotation %s",
			addr.Quote(name), service.AnnotationGroup)}
}

// noDefault says why no group is for the Service, which names none.
func (m *matter) noDefault() *Refusal {
	g, ok := m.Config.Group(DefaultGroup)
	if refusal := m.unusable(DefaultGroup); !ok && refusal != nil {
		return refusal
	}
	if !ok {
		return &Refusal{Metric: metricUnknown, Pool: noPool, Reason: ReasonUnknown,
			Message: fmt.Sprintf("unknown pool %q: the Service names no ServiceGroup, and there is none of that name;"+
				" create it, or name another one with the annotation %s", DefaultGroup, service.AnnotationGroup)}
	}
	if refusal := m.denied(g); refusal != nil {
		return refusal
	}
	return &Refusal{Metric: metricNoPool, Pool: g.DisplayName(), Reason: ReasonNoPool,
		Message: fmt.Sprintf("no usable pool: the Service names no ServiceGroup, and %q is not for it by its autoAssign or its selectors;"+
			" change them, or name a group with the annotation %s", g.DisplayName(), service.AnnotationGroup)}
}

// unusable says why the group called name was not accepted, or returns nil if
// there is none of that name.
func (m *matter) unusable(name string) *Refusal {
	for _, p := range m.Config.Problems {
		if p.Kind != config.KindServiceGroup || p.Name != name || p.Severity != config.Refused {
			continue
		}
		if p.Reason == config.ReasonOutOfScope {
			return &Refusal{Metric: metricUnknown, Pool: name, Reason: ReasonUnknown,
				Message: fmt.Sprintf("unknown pool %s: %s", addr.Quote(name), p)}
		}
		return &Refusal{Metric: metricNoPool, Pool: name, Reason: ReasonNoPool,
			Message: fmt.Sprintf("no usable pool: ServiceGroup %s is not accepted (%s): %s", addr.Quote(name), p.Reason, p)}
	}
	return nil
}
