package config

import (
	"fmt"
	"iter"
	"strings"
)

// origin is the source of the addresses of a NetBox group: a prefix or an IP range,
// or the reserved addresses of a tenant.
type origin struct {
	server, tenant string
	parent         NetBoxParent
}

// origins returns the origins of n, each with its field.
func (n NetBox) origins() iter.Seq2[string, origin] {
	return func(yield func(string, origin) bool) {
		if n.Reserved {
			yield("spec.netbox.tenant", origin{server: ServerOf(n.URL), tenant: n.Tenant})
			return
		}
		for i, p := range n.Parents {
			if !yield(fmt.Sprintf("spec.netbox.parents[%d]", i), origin{server: ServerOf(n.URL), parent: p}) {
				return
			}
		}
	}
}

// ServerOf returns the same text for different URLs of the same server, as far as
// the URLs show that. Documents of earlier versions wrote /api at the end of some
// URLs.
func ServerOf(url string) string {
	url = strings.TrimSuffix(strings.TrimSuffix(url, "/"), "/api")
	scheme, rest, _ := strings.Cut(url, "://")
	host, path, _ := strings.Cut(rest, "/")
	return scheme + "://" + strings.ToLower(host) + "/" + path
}

// warnOfSharing warns of each group that has the same origin as an older group.
// readings must be sorted by age.
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
