package ipamserver

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"purelb.io/purelb/internal/ipam"
)

// outcomes map the kinds of NetBox errors to gRPC codes, the most important kind first. If
// a call has several errors, the first kind is the answer. A call that may have changed
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

// rank returns the position of a kind in outcomes. An unknown kind may have changed
// something.
func rank(kind ipam.Kind) int {
	for i, o := range outcomes {
		if o.kind == kind {
			return i
		}
	}
	return 0
}

// refuses reports whether err means that NetBox has no such address. All other errors are faults,
// which may end.
func refuses(kind ipam.Kind) bool { return rank(kind) >= rank(ipam.KindInvalid) }

// worst returns the error for the answer to a call, or nil.
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

// statusOf returns err as a gRPC status.
func statusOf(err *ipam.Error) error { return status.Error(outcomes[rank(err.Kind)].code, err.Message) }
