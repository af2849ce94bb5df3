package addr

import (
	"net/netip"
	"slices"
	"strings"
)

// Join writes addresses with separator between them.
func Join(addresses []netip.Addr, separator string) string {
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = a.String()
	}
	return strings.Join(texts, separator)
}

// Without returns those of addresses that are not in others.
func Without(addresses, others []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool { return slices.Contains(others, a) })
}
