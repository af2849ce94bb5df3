package ipamserver

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"purelb.io/purelb/internal/ipam"
)

// outcomes are what the kinds of errors of NetBox are on the wire, the most important ones
// first: a call that meets several is answered with the first. A call that may have changed
// something must never look like one that did nothing.
var outcomes = []struct {
	kind ipam.Kind
	code codes.Code
}{
	{ipam.KindUnknown, codes.Unknown},
	{ipam.KindMisconfigured, codes.FailedPrecondition},
	{ipam.KindUnavailable, codes.Unavailable},
	{ipam.KindInvalid, codes.InvalidArgument},
	{ipam.KindTaken, codes.AlreadyExists},
	{ipam.KindExhausted, codes.ResourceExhausted},
}

// rank is the place of a kind in outcomes. What is not there may have changed something.
func rank(kind ipam.Kind) int {
	for i, o := range outcomes {
		if o.kind == kind {
			return i
		}
	}
	return 0
}

// refuses says whether an error is the word of NetBox that it has no such address. The others
// are faults, which pass.
func refuses(kind ipam.Kind) bool { return rank(kind) >= rank(ipam.KindInvalid) }

// worst returns the error that a call is answered with, or nil.
func worst(errs []error) *ipam.Error {
	var found []*ipam.Error
	for _, err := range errs {
		if err != nil {
			found = append(found, ipam.AsError(err))
		}
	}
	if len(found) == 0 {
		return nil
	}
	return slices.MinFunc(found, func(a, b *ipam.Error) int { return rank(a.Kind) - rank(b.Kind) })
}

// statusOf is err on the wire.
func statusOf(err *ipam.Error) error { return status.Error(outcomes[rank(err.Kind)].code, err.Message) }
