package announce

import (
	"fmt"
	"net/netip"
)

// Changes turn the node into the wanted state. Apply the fields in their order: then an
// address that moves is never absent.
type Changes struct {
	// Add are wanted addresses that are not there.
	Add []Address
	// Refresh are addresses that are there, and expire soon or have other attributes than
	// wanted.
	Refresh []Address
	// Remove are our addresses that are there and not wanted.
	Remove []Address
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

// Failures returns the addresses that err is about, and why. If err names no address, it is
// about all of them.
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

// AddressErrors returns the AddressErrors that err wraps.
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
