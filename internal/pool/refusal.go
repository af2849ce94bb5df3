package pool

import (
	"fmt"
	"net/netip"
)

// HeldError is the refusal to hold an address that somebody else holds.
type HeldError struct {
	Addr netip.Addr
	By   Owner
}

func (e *HeldError) Error() string { return fmt.Sprintf("%s is held by %s", e.Addr, e.By) }

// BlockedError is the refusal to hold an address that must not be handed out.
type BlockedError struct {
	Addr netip.Addr
	// Reason says what the address is, such as "address of node node-2".
	Reason string
}

func (e *BlockedError) Error() string {
	return fmt.Sprintf("%s cannot be handed out: %s", e.Addr, e.Reason)
}
