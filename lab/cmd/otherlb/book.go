package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

type addresses = []netip.Addr

// ranges are the addresses that this controller may hand out.
type ranges []addressRange

type addressRange struct{ first, last netip.Addr }

// parseRanges reads ranges such as "192.0.2.1-192.0.2.9, 2001:db8::1-2001:db8::9".
func parseRanges(text string) (ranges, error) {
	var out ranges
	for field := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(", \n", r) }) {
		from, to, ok := strings.Cut(field, "-")
		if !ok {
			return nil, fmt.Errorf("%q is not a range: want FIRST-LAST", field)
		}
		first, err := netip.ParseAddr(from)
		if err != nil {
			return nil, fmt.Errorf("first address of %q: %w", field, err)
		}
		last, err := netip.ParseAddr(to)
		if err != nil {
			return nil, fmt.Errorf("last address of %q: %w", field, err)
		}
		out = append(out, addressRange{first, last})
	}
	return out, nil
}

func (r ranges) contain(a netip.Addr) bool {
	return slices.ContainsFunc(r, func(r addressRange) bool { return r.first.Compare(a) <= 0 && a.Compare(r.last) <= 0 })
}

// serves reports whether a controller with this class serves svc. It also serves a Service that is
// no longer a load balancer, in order to clear its status.
func serves(svc *corev1.Service, class string) bool {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return len(svc.Status.LoadBalancer.Ingress) > 0
	}
	if svc.Spec.LoadBalancerClass == nil {
		return class == ""
	}
	return *svc.Spec.LoadBalancerClass == class
}

// shown returns the addresses in the status of svc.
func shown(svc *corev1.Service) (out addresses) {
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(in.IP); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// book has the addresses that each Service holds.
type book map[types.NamespacedName]addresses

func keyOf(svc *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
}

// release frees the addresses of a Service, and reports whether it had any.
func (b book) release(key types.NamespacedName) bool {
	_, held := b[key]
	delete(b, key)
	return held
}

// adopt books the addresses that svc shows, if all of them are in the ranges and free.
func (b book) adopt(svc *corev1.Service, r ranges) {
	if has := shown(svc); len(b[keyOf(svc)]) == 0 && b.allows(svc, has, r) {
		b[keyOf(svc)] = has
	}
}

// allows reports whether svc may have exactly these addresses.
func (b book) allows(svc *corev1.Service, has addresses, r ranges) bool {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || len(has) != len(svc.Spec.IPFamilies) {
		return false
	}
	return !slices.ContainsFunc(has, func(a netip.Addr) bool { return !r.contain(a) || b.taken(a, keyOf(svc)) })
}

// taken reports whether a Service other than key holds a.
func (b book) taken(a netip.Addr, key types.NamespacedName) bool {
	for owner, held := range b {
		if owner != key && slices.Contains(held, a) {
			return true
		}
	}
	return false
}

// assign decides which addresses svc gets. It keeps the addresses that svc shows if the ranges
// allow them. Otherwise it chooses the lowest free address of each family. If a family has no free
// address, assign returns no addresses and the reason.
func (b book) assign(svc *corev1.Service, r ranges) (addresses, error) {
	key, has := keyOf(svc), shown(svc)
	if b.allows(svc, has, r) {
		b[key] = has
		return has, nil
	}
	b.release(key)
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil, nil
	}
	var out addresses
	for _, family := range svc.Spec.IPFamilies {
		a, err := b.lowest(family, r)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	if len(out) == 0 {
		return nil, errors.New("the Service has no IP family")
	}
	b[key] = out
	return out, nil
}

// lowest returns the lowest free address of a family.
func (b book) lowest(family corev1.IPFamily, r ranges) (netip.Addr, error) {
	for _, in := range r {
		if in.first.Is4() != (family == corev1.IPv4Protocol) {
			continue
		}
		for a := in.first; a.Compare(in.last) <= 0; a = a.Next() {
			if !b.taken(a, types.NamespacedName{}) {
				return a, nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("no free %s address", family)
}
