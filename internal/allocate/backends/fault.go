package backends

import (
	"cmp"
	"fmt"
	"slices"

	"purelb.io/purelb/internal/allocate/ipam"
)

// severity orders faults: people should see the first kind.
var severity = []ipam.Kind{ipam.KindMisconfigured, ipam.KindUnknown, ipam.KindUnavailable}

// worst returns the fault that people should see, or nil. An error that is the refusal of one claim is
// no fault.
func worst(errs []error) (worst *ipam.Error) {
	for _, err := range errs {
		if fault := faultOf(err); worst == nil || fault != nil && compare(fault, worst) < 0 {
			worst = fault
		}
	}
	return worst
}

// compare orders faults. The text decides between faults of one kind, so that their order is always
// the same.
func compare(a, b *ipam.Error) int {
	return cmp.Or(cmp.Compare(slices.Index(severity, a.Kind), slices.Index(severity, b.Kind)), cmp.Compare(a.Message, b.Message))
}

// faultOf returns the error of a backend that does not work. It returns nil for a success
// and for the refusal of one claim.
func faultOf(err error) *ipam.Error {
	if err == nil {
		return nil
	}
	if e := ipam.AsError(err).Root(); slices.Contains(severity, e.Kind) {
		return e
	}
	return nil
}

func misconfigured(format string, args ...any) *ipam.Error {
	return &ipam.Error{Kind: ipam.KindMisconfigured, Message: fmt.Sprintf(format, args...)}
}
