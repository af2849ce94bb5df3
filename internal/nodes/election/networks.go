package election

import (
	"iter"
	"net/netip"
	"slices"
)

// Networks is a set of networks for many lookups of addresses.
type Networks struct{ all byLength[struct{}] }

// NewNetworks returns all as Networks.
func NewNetworks(all []netip.Prefix) Networks {
	n := Networks{newByLength[struct{}](len(all))}
	for _, network := range all {
		n.all.put(network.Masked(), struct{}{})
	}
	return n
}

// Contains reports whether ip is in one of the networks.
func (n Networks) Contains(ip netip.Addr) bool {
	for range n.all.with(ip.Unmap()) {
		return true
	}
	return false
}

// byLength holds a value for each network. There may be as many networks as nodes,
// but few different mask lengths. So a lookup tries each length, and does not walk
// over the networks.
type byLength[T any] struct {
	values  map[netip.Prefix]T
	lengths []int
}

func newByLength[T any](size int) byLength[T] {
	return byLength[T]{values: make(map[netip.Prefix]T, size)}
}

// put sets the value of a network, which must be masked. An invalid network is
// ignored.
func (b *byLength[T]) put(network netip.Prefix, value T) {
	if !network.IsValid() {
		return
	}
	b.values[network] = value
	if !slices.Contains(b.lengths, network.Bits()) {
		b.lengths = append(b.lengths, network.Bits())
	}
}

// with returns the values of the networks that contain ip.
func (b *byLength[T]) with(ip netip.Addr) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, length := range b.lengths {
			network, err := ip.Prefix(length)
			if err != nil {
				continue // longer than an address of this family
			}
			if value, ok := b.values[network]; ok && !yield(value) {
				return
			}
		}
	}
}
