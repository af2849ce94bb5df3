package backends

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/backoff"
)

// A failed request is tried again after a pause. The pause doubles with each failure, from the first
// to the longest. It is longer if a person must correct the configuration. The whole group waits if
// its backend is away or cannot be found. Otherwise only the holder waits whose request failed.
const (
	firstWait                  = time.Second
	firstMending, longestMends = 15 * time.Second, 5 * time.Minute
)

// pace says when a group is tried again.
type pace struct {
	// failures counts consecutive failures of one kind. mends says that a person must correct them.
	failures int
	mends    bool
	// next is when to try again.
	next time.Time
}

// failed notes a failure. jitter, in [0, 1), shortens the pause by up to half, so that
// groups that failed together do not retry together.
func (p *pace) failed(now time.Time, fault *ipam.Error, longest time.Duration, jitter float64) {
	if mends := fault.Kind == ipam.KindMisconfigured; mends != p.mends {
		*p = pace{mends: mends}
	}
	p.failures++
	pause := backoff.After(p.failures, firstWait, longest, jitter)
	if p.mends {
		pause = backoff.After(p.failures, firstMending, longestMends, jitter)
	}
	p.next = now.Add(max(pause, fault.RetryAfter))
}

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
