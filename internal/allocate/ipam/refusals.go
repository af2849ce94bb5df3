package ipam

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
	"purelb.io/purelb/internal/service"
)

// Reasons of the condition of a Service that has all that it asks for, or to which PureLB
// gives nothing more.
const (
	ReasonAllocated = "Allocated"
	ReasonPartial   = "PartiallyAllocated"
	ReasonConflict  = "AddressConflict"
	ReasonDeleting  = "Deleting"
	// ReasonContested means that another controller keeps changing the status.
	ReasonContested = service.ReasonContested
)

// Reasons of the condition of a Service to which PureLB refuses something.
const (
	ReasonExhausted         = "Exhausted"
	ReasonUnknown           = "UnknownPool"
	ReasonNoPool            = "NoUsablePool"
	ReasonDenied            = "NamespaceDenied"
	ReasonAmbiguous         = "AmbiguousNamespaceDefault"
	ReasonNamespaceUnknown  = "NamespaceUnknown"
	ReasonInUse             = "AddressInUse"
	ReasonOutside           = "AddressOutsidePools"
	ReasonReserved          = "AddressReserved"
	ReasonExcluded          = "AddressExcluded"
	ReasonDraining          = "RangeDraining"
	ReasonWrongFamily       = "WrongFamily"
	ReasonBadRequest        = "InvalidRequest"
	ReasonPortConflict      = "PortConflict"
	ReasonSharingConflict   = "SharingConflict"
	ReasonOtherNamespace    = "SharedInAnotherNamespace"
	ReasonMultiPool         = "MultiPoolRefused"
	ReasonMultiPoolMismatch = "MultiPoolMismatch"
)

// Reasons of the condition of a Service to which a backend has granted no address yet, or
// never will.
const (
	ReasonBackend              = "WaitingForBackend"
	ReasonBackendRefused       = "BackendRefused"
	ReasonBackendMisconfigured = "BackendMisconfigured"
	ReasonBackendUnavailable   = "BackendUnavailable"
)

// Reasons returns every reason that a condition can have.
func Reasons() []string {
	return []string{
		ReasonAllocated, ReasonPartial, ReasonConflict, ReasonDeleting, ReasonContested,
		ReasonExhausted, ReasonUnknown, ReasonNoPool, ReasonDenied, ReasonAmbiguous, ReasonNamespaceUnknown,
		ReasonInUse, ReasonOutside, ReasonReserved, ReasonExcluded, ReasonDraining, ReasonWrongFamily, ReasonBadRequest,
		ReasonPortConflict, ReasonSharingConflict, ReasonOtherNamespace, ReasonMultiPool, ReasonMultiPoolMismatch,
		ReasonBackend, ReasonBackendRefused, ReasonBackendMisconfigured, ReasonBackendUnavailable,
	}
}

// Refusal is why a Service does not get something.
type Refusal struct {
	// Metric is the reason, and Pool is the group, in the metric that counts refusals.
	Metric, Pool string
	// Reason and Message are for the Service's condition.
	Reason, Message string

	// Claiming says that nothing is wrong: the backend has not answered yet.
	Claiming bool

	// awaits says that a backend may still grant the missing address.
	awaits bool
	// needs are the conditions on which the Service waits for its addresses.
	needs []Need
	// lacking says that nothing is wrong with the request, but the cluster has no address
	// for it.
	lacking bool
}

// Reasons of refusals, as labels of the metric.
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
	metricBackend   = "backend"
	metricOther     = "other"
	metricRefused   = "write_refused"
)

// noPool is the label for a refusal of a Service that names no group.
const noPool = "<none>"

// unknownPool is the label for a refusal of a Service that names a missing group. Users may
// write any number of names, and also names that a label cannot have.
const unknownPool = "<unknown>"

// WriteRefused says that the API server refuses to write what a Service gets. from is the
// annotation that names the groups of its addresses.
func WriteRefused(gs groups.Groups, from string) *Refusal { return labeled(gs, metricRefused, from) }

// Partial says that a Service has some of its addresses, and waits for others. It counts as
// waiting, and not as refused. from is the annotation that names the groups of its addresses.
func Partial(gs groups.Groups, from string) *Refusal { return labeled(gs, "partial", from) }

// labeled returns a refusal with the labels of the groups in from. Users can write any text into
// that annotation, so only the name of one group is a label as it is.
func labeled(gs groups.Groups, metric, from string) *Refusal {
	if _, ok := gs.Group(from); ok || from == "" {
		return &Refusal{Metric: metric, Pool: cmp.Or(from, noPool)}
	}
	return &Refusal{Metric: metric, Pool: unknownPool}
}

// merge makes one refusal from several. The first one determines the metric and the reason of the
// condition.
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
		one.lacking, one.Claiming = one.lacking && r.lacking, one.Claiming && r.Claiming
	}
	one.Message = strings.Join(messages, "; ")
	return &one
}

// unknown returns the reason why there is no group called name, which the Service names.
func (c *chooser) unknown(name string) *Refusal {
	if refusal := c.several(name); refusal != nil {
		return refusal
	}
	if refusal := c.unusable(name); refusal != nil {
		return refusal
	}
	return &Refusal{Metric: metricUnknown, Pool: unknownPool, Reason: ReasonUnknown,
		Message: fmt.Sprintf("unknown pool %s: there is no ServiceGroup of that name; create it, or change the annotation %s",
			addr.Quote(name), service.AnnotationGroup)}
}

// several refuses name if it may mean groups of several namespaces, and otherwise returns
// nil.
func (c *chooser) several(name string) *Refusal {
	refs := c.Groups.Ambiguous(name)
	if len(refs) == 0 {
		return nil
	}
	return &Refusal{Metric: metricUnknown, Pool: unknownPool, Reason: ReasonUnknown,
		Message: fmt.Sprintf("unknown pool %s: several namespaces have a ServiceGroup of that name; write one of %s in the annotation %s",
			addr.Quote(name), strings.Join(refs, ", "), service.AnnotationGroup)}
}

// noDefault returns the reason why there is no group for a Service that names none.
func (c *chooser) noDefault() *Refusal {
	g, ok := c.Groups.Group(DefaultGroup)
	if refusal := cmp.Or(c.several(DefaultGroup), c.unusable(DefaultGroup)); !ok && refusal != nil {
		return refusal
	}
	if !ok {
		return &Refusal{Metric: metricUnknown, Pool: noPool, Reason: ReasonUnknown,
			Message: fmt.Sprintf("unknown pool %q: the Service names no ServiceGroup, and there is none of that name;"+
				" create it, or name another one with the annotation %s", DefaultGroup, service.AnnotationGroup)}
	}
	if refusal := c.denied(g); refusal != nil {
		return refusal
	}
	return &Refusal{Metric: metricNoPool, Pool: g.DisplayName(), Reason: ReasonNoPool,
		Message: fmt.Sprintf("no usable pool: the Service names no ServiceGroup, and %q excludes it by autoAssign or a selector;"+
			" change them, or name a group with the annotation %s", g.DisplayName(), service.AnnotationGroup)}
}

// unusable returns the reason why the group called name is not accepted, or nil if there is
// no such group.
func (c *chooser) unusable(name string) *Refusal {
	for _, g := range c.Groups.Refused {
		if g.Name != name && g.Namespace+"/"+g.Name != name {
			continue
		}
		if g.OutOfScope {
			return &Refusal{Metric: metricUnknown, Pool: name, Reason: ReasonUnknown,
				Message: fmt.Sprintf("unknown pool %s: %s", addr.Quote(name), g.Message)}
		}
		return &Refusal{Metric: metricNoPool, Pool: name, Reason: ReasonNoPool,
			Message: fmt.Sprintf("no usable pool: ServiceGroup %s is not accepted (%s): %s", addr.Quote(name), g.Reason, g.Message)}
	}
	return nil
}

// list writes items for people.
func list[T any](items []T, text func(T) string) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = text(item)
	}
	return strings.Join(texts, ", ")
}

func familyNames(families []addr.Family) string { return list(families, addr.Family.String) }

func groupNames(all []*groups.Group) string {
	return list(all, func(g *groups.Group) string { return strconv.Quote(g.DisplayName()) })
}

// pools names groups as the subject of a sentence.
func pools(groups []*groups.Group) string {
	if len(groups) == 1 {
		return "pool " + groupNames(groups)
	}
	return "pools " + groupNames(groups)
}

// RefusesAdoption returns the reason why PureLB cannot adopt the Service of r, which another
// controller served, at the addresses that it shows, or nil.
func (c Cluster) RefusesAdoption(r service.Request) *Refusal {
	ch := newChooser(c, r)
	for _, a := range r.Strange {
		g, _, ok := c.GroupOf(a)
		if !ok {
			return &Refusal{Metric: metricOther, Pool: noPool, Reason: ReasonOutside, Message: fmt.Sprintf(
				"PureLB cannot adopt this Service: %s is in no ServiceGroup that is in use; add a range that contains it", a)}
		}
		if denied := ch.denied(g); denied != nil {
			denied.Message = "PureLB cannot adopt this Service: " + denied.Message
			return denied
		}
		for _, by := range append(c.Store.Holders(a), c.Store.Contenders(a)...) {
			terms := c.Store.Terms(by)
			if by == ch.me || terms.Foreign || r.SharingKey != "" && terms.Key == r.SharingKey {
				continue
			}
			return &Refusal{Metric: metricOther, Pool: g.DisplayName(), Reason: ReasonInUse, Message: fmt.Sprintf(
				"PureLB cannot adopt this Service: %s is held by %s; give both Services the same annotation %s, or give that Service another address",
				a, by, service.AnnotationSharing)}
		}
	}
	return nil
}
