package announce

import (
	"fmt"
	"net/netip"
)

// ReasonNodeAddress is why an address is not added that the node has already,
// from somebody else.
const ReasonNodeAddress = "nodeAddress"

// Changes are what makes the node as it should be. The order of the fields is
// the order in which they are to be applied: an address that moves is never
// absent.
type Changes struct {
	// Add are wanted and not there.
	Add []Address
	// Refresh are there, and expire soon or have other attributes than
	// wanted.
	Refresh []Address
	// Remove are there, ours, and not wanted.
	Remove []Address
	// Refused are wanted, and must not be added.
	Refused []Refusal
}

// Refusal is a wanted address that this node cannot carry, and why.
type Refusal struct {
	Address Address
	Reason  string
	Message string
}

// AddressError is the failure of a change of one Address.
type AddressError struct {
	Address Address
	Err     error
}

func (e *AddressError) Error() string {
	return fmt.Sprintf("%s on %s: %v", e.Address.Prefix, e.Address.Link, e.Err)
}

func (e *AddressError) Unwrap() error { return e.Err }

// Failures returns which of addresses err is about, and why: all of them when err is
// about none in particular.
func Failures(addresses []Address, err error) map[netip.Addr]error {
	failed := map[netip.Addr]error{}
	single := AddressErrors(err)
	for _, e := range single {
		failed[e.Address.Prefix.Addr()] = e.Err
	}
	if err != nil && len(single) == 0 {
		for _, a := range addresses {
			failed[a.Prefix.Addr()] = err
		}
	}
	return failed
}

// AddressErrors returns the failures of single addresses that err is made of.
func AddressErrors(err error) []*AddressError {
	switch e := err.(type) { //nolint:errorlint // this is what takes the wrapping apart
	case *AddressError:
		return []*AddressError{e}
	case interface{ Unwrap() error }:
		return AddressErrors(e.Unwrap())
	case interface{ Unwrap() []error }:
		var all []*AddressError
		for _, one := range e.Unwrap() {
			all = append(all, AddressErrors(one)...)
		}
		return all
	default:
		return nil
	}
}

// Empty says that there is nothing to apply.
func (c Changes) Empty() bool {
	return len(c.Add)+len(c.Refresh)+len(c.Remove) == 0
}

// Removable returns what to remove, beside the addresses that are missing where they are
// wanted: such an address stays where it is now.
func (c Changes) Removable(missing map[netip.Addr]error) []Address {
	var safe []Address
	for _, a := range c.Remove {
		if missing[a.Prefix.Addr()] == nil {
			safe = append(safe, a)
		}
	}
	return safe
}
