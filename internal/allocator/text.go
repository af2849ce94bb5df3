package allocator

import (
	"net/netip"
	"slices"
	"strings"
)

// without returns those of a that are not in b.
func without[E comparable](a, b []E) []E {
	return slices.DeleteFunc(slices.Clone(a), func(x E) bool { return slices.Contains(b, x) })
}

// texts writes addresses for a person.
func texts(addresses []netip.Addr) string {
	all := make([]string, len(addresses))
	for i, a := range addresses {
		all[i] = a.String()
	}
	return strings.Join(all, ", ")
}
