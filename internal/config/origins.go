package config

import (
	"fmt"
	"iter"
	"strings"
)

// origin is where a group of NetBox has its addresses from: a prefix or an IP range, or
// the reserved addresses of a tenant.
type origin struct {
	server, tenant string
	parent         NetBoxParent
}

// origins returns those of n, each with its field.
func (n NetBox) origins() iter.Seq2[string, origin] {
	return func(yield func(string, origin) bool) {
		if n.Reserved {
			yield("spec.netbox.tenant", origin{server: serverOf(n.URL), tenant: n.Tenant})
			return
		}
		for i, p := range n.Parents {
			if !yield(fmt.Sprintf("spec.netbox.parents[%d]", i), origin{server: serverOf(n.URL), parent: p}) {
				return
			}
		}
	}
}

// serverOf returns the same text for URLs of the same server, as far as they tell. The
// documents of earlier versions wrote /api at the end of some.
func serverOf(url string) string {
	url = strings.TrimSuffix(strings.TrimSuffix(url, "/"), "/api")
	scheme, rest, _ := strings.Cut(url, "://")
	host, path, _ := strings.Cut(rest, "/")
	return scheme + "://" + strings.ToLower(host) + "/" + path
}

// warnOfSharing warns of each group that has its addresses from where an older one has
// them from. Readings are sorted by age.
func warnOfSharing(readings []*reading) {
	owners := map[origin]string{}
	for _, r := range readings {
		if r.refused() || r.backend == nil || r.backend.NetBox == nil {
			continue
		}
		for field, o := range r.backend.NetBox.origins() {
			if owner, taken := owners[o]; taken {
				r.warn(ReasonAdjusted, field, "ServiceGroup %q has its addresses from there too, and each of the two counts all of them as its own: "+
					"give each group a prefix, an IP range or a tenant of its own", owner)
				continue
			}
			owners[o] = r.group.Ref()
		}
	}
}
