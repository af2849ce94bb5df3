package selection

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/service"
)

// result says where addresses come from. What was said of addresses that stay
// as they are is not said anew: a group that was renamed or removed since does
// not make a Service change.
func (c Cluster) result(r service.Request, addresses []netip.Addr) service.Result {
	result := service.Result{Addresses: addresses, From: r.From, PoolType: r.PoolType, SkipIPv6DAD: c.skipIPv6DAD(r, addresses)}
	changed := !slices.Equal(addresses, r.Held)
	if changed || r.From == "" {
		result.From = c.from(r, addresses)
	}
	if changed || r.PoolType == "" {
		result.PoolType = c.poolType(r, addresses)
	}
	return result
}

// from names the groups of addresses. An address that is in no group any more
// has the name that it came with.
func (c Cluster) from(r service.Request, addresses []netip.Addr) string {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, a := range addresses {
		if g, _, ok := c.Config.GroupOf(a); ok {
			add(g.DisplayName())
			continue
		}
		for name := range strings.SplitSeq(r.From, ", ") {
			add(name)
		}
	}
	return strings.Join(names, ", ")
}

// poolType is local if all addresses are. For addresses that no group and no
// node's subnet has, it is what it was.
func (c Cluster) poolType(r service.Request, addresses []netip.Addr) string {
	for _, a := range addresses {
		if c.local(a) {
			continue
		}
		if _, _, known := c.Config.GroupOf(a); known || r.PoolType == service.PoolRemote {
			return service.PoolRemote
		}
	}
	return service.PoolLocal
}

// skipIPv6DAD reports whether the group of an IPv6 address wants it to be used
// without duplicate address detection.
func (c Cluster) skipIPv6DAD(r service.Request, addresses []netip.Addr) bool {
	return slices.ContainsFunc(ofFamily(addresses, addr.V6), func(a netip.Addr) bool {
		g, _, ok := c.Config.GroupOf(a)
		return ok && g.SkipIPv6DAD || !ok && r.SkipIPv6DAD
	})
}

// verdict is the condition of the Service of r.
func verdict(r service.Request, result service.Result, refusal *Refusal, conflict string) (ok bool, reason, message string) {
	has := "Assigned " + join(result.Addresses)
	if result.From != "" {
		has += " from pool " + result.From
	}
	switch n := len(result.Addresses); {
	case conflict != "":
		return false, ReasonConflict, conflict
	case refusal != nil && n > 0 && r.Policy == service.Some:
		return true, ReasonPartial, has + "; " + refusal.Message
	case refusal != nil && n > 0:
		return false, refusal.Reason, has + "; " + refusal.Message
	case refusal != nil:
		return false, refusal.Reason, refusal.Message
	case n == 0:
		return false, ReasonDeleting, "the Service is being deleted"
	}
	return true, ReasonAllocated, has + aside(r, result)
}

// aside tells what a Service asks for that is not in effect.
func aside(r service.Request, result service.Result) string {
	var text string
	for _, a := range r.Asked {
		if !slices.Contains(result.Addresses, a) {
			text += fmt.Sprintf("; the request for %s is not in effect: a Service keeps the address that it has", a)
		}
	}
	if r.SharingKey != "" {
		text += fmt.Sprintf("; %s is not in effect in this version: new addresses are not shared", service.AnnotationSharing)
	}
	return text
}

// notes are about those of addresses that were asked for and that the Service
// of r does not show yet.
func (c Cluster) notes(r service.Request, addresses []netip.Addr) []Note {
	var notes []Note
	for _, a := range addresses {
		if slices.Contains(r.Held, a) || !slices.Contains(r.Asked, a) {
			continue
		}
		if r.ByField {
			notes = append(notes, Note{"DeprecationWarning", fmt.Sprintf(
				"spec.loadBalancerIP is deprecated; use the annotation %s: %q", service.AnnotationAddresses, a)})
		}
		if g, _, ok := c.Config.GroupOf(a); ok && r.Group != "" && !named(g, r.Group) {
			notes = append(notes, Note{"ConfigurationWarning", fmt.Sprintf(
				"%s was asked for and is from ServiceGroup %q; the annotation %s: %s is ignored for it",
				a, g.DisplayName(), service.AnnotationGroup, addr.Quote(r.Group))})
		}
	}
	return notes
}

// named reports whether g is called name.
func named(g config.Group, name string) bool {
	return g.Name == name || g.Alias == name
}
