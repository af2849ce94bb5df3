package pool

import (
	"errors"
	"fmt"
	"net/netip"
)

// HeldReason says which of the terms of an address keeps another out.
type HeldReason string

const (
	// HeldByKey is an address that its holder has for itself, or whose
	// tenants have another key.
	HeldByKey HeldReason = "key"
	// HeldByNamespace is an address with the right key, and a tenant of
	// another namespace.
	HeldByNamespace HeldReason = "namespace"
	// HeldByPort is an address on which another tenant has the port.
	HeldByPort HeldReason = "port"
)

// HeldError is the refusal to hold an address, or to have a key or a port on
// it, because of somebody else who holds it.
type HeldError struct {
	Addr   netip.Addr
	By     Owner
	Reason HeldReason
	// Port is the one that By has, for HeldByPort.
	Port Port
}

func (e *HeldError) Error() string {
	switch e.Reason {
	case HeldByNamespace:
		return fmt.Sprintf("%s is held by %s of another namespace", e.Addr, e.By)
	case HeldByPort:
		return fmt.Sprintf("port %s of %s is held by %s", e.Port, e.Addr, e.By)
	default:
		return fmt.Sprintf("%s is held by %s", e.Addr, e.By)
	}
}

// BlockedError is the refusal to hold an address that must not be handed out.
type BlockedError struct {
	Addr netip.Addr
	// Reason says what the address is, such as "address of node node-2".
	Reason string
}

func (e *BlockedError) Error() string {
	return fmt.Sprintf("%s cannot be handed out: %s", e.Addr, e.Reason)
}

var errNoAddress = errors.New("there is no address to hold")

// Refuses returns what Hold would, and changes nothing.
func (b *Book) Refuses(a netip.Addr, by Owner, wide bool) error {
	a = plain(a)
	if !a.IsValid() {
		return errNoAddress
	}
	first, taken := b.holders[a]
	if taken && b.holds(a, by, first) {
		return nil
	}
	if reason, ok := b.blocked[a]; ok {
		return &BlockedError{a, reason}
	}
	if !taken {
		return nil
	}
	if refusal := b.keepsOut(a, by, first, wide); refusal != nil {
		return refusal
	}
	return nil
}

// keepsOut says why by cannot join the tenants of a, of which first is the
// first, or returns nil.
func (b *Book) keepsOut(a netip.Addr, by, first Owner, wide bool) *HeldError {
	want, c := b.terms[by], b.crowds[a]
	if want.Key == "" || want.Key != b.keyOf(c, first) {
		return &HeldError{Addr: a, By: first, Reason: HeldByKey}
	}
	if !wide {
		if other, found := b.stranger(c, first, by.Namespace()); found {
			return &HeldError{Addr: a, By: other, Reason: HeldByNamespace}
		}
	}
	for _, p := range want.Ports {
		if other, found := b.listener(c, first, p); found {
			return &HeldError{Addr: a, By: other, Reason: HeldByPort, Port: p}
		}
	}
	return nil
}

// keyOf returns the key in effect on an address with the tenants c or, when
// that is nil, the sole tenant first.
func (b *Book) keyOf(c *crowd, first Owner) string {
	if c == nil {
		return b.terms[first].Key
	}
	return c.key
}

// stranger returns the first tenant that is not of a namespace, if any.
func (b *Book) stranger(c *crowd, first Owner, namespace string) (Owner, bool) {
	if c == nil {
		return first, first.Namespace() != namespace
	}
	return c.stranger(namespace)
}

// listener returns the tenant that has p, if any.
func (b *Book) listener(c *crowd, first Owner, p Port) (Owner, bool) {
	if c == nil {
		return first, b.terms[first].wants(p)
	}
	if wanting := c.ports[p]; len(wanting) > 0 {
		return wanting[0], true
	}
	return "", false
}
