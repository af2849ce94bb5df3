package ipam

import (
	"fmt"
	"net/netip"
	"slices"

	"purelb.io/purelb/internal/service"
)

// warnings are sentences for the condition of the Service about what its author seems to expect, and
// does not get.
func (c *chooser) warnings(addresses []netip.Addr) []string {
	all := slices.Clone(c.r.Unread)
	for _, a := range c.r.External {
		if g, _, ok := c.GroupOf(a); ok && !slices.Contains(addresses, a) {
			all = append(all, fmt.Sprintf("%s in spec.externalIPs is an address of ServiceGroup %q, and no node announces it for this Service; use the annotation %s instead",
				a, g.DisplayName(), service.AnnotationAddresses))
		}
	}
	return all
}
