package backends

import (
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

// pace says when failed work is tried again.
type pace struct {
	// fault is why the work failed last, nil if it did not.
	fault *ipam.Error
	// failures counts consecutive failures of one kind.
	failures int
	// next is when to try again.
	next time.Time
}

// failed notes a failure. jitter, in [0, 1), shortens the pause by up to half, so that
// groups that failed together do not retry together.
func (p *pace) failed(now time.Time, fault *ipam.Error, longest time.Duration, jitter float64) {
	mends := fault.Kind == ipam.KindMisconfigured
	if p.fault != nil && (p.fault.Kind == ipam.KindMisconfigured) != mends {
		p.failures = 0
	}
	p.fault = fault
	p.failures++
	pause := backoff.After(p.failures, firstWait, longest, jitter)
	if mends {
		pause = backoff.After(p.failures, firstMending, longestMends, jitter)
	}
	p.next = now.Add(max(pause, fault.RetryAfter))
}

// severity orders faults: people should see the first kind.
var severity = []ipam.Kind{ipam.KindMisconfigured, ipam.KindUnknown, ipam.KindUnavailable}

// worst returns the fault that people should see, with the longest pause of all, or nil. An error
// that is the refusal of one claim is no fault.
func worst(errs []error) *ipam.Error {
	var found *ipam.Error
	for _, err := range errs {
		fault := faultOf(err)
		if fault == nil {
			continue
		}
		if found == nil {
			found = fault
			continue
		}
		a, b := found, fault
		if slices.Index(severity, b.Kind) < slices.Index(severity, a.Kind) {
			a, b = b, a
		}
		longer := *a
		longer.RetryAfter = max(a.RetryAfter, b.RetryAfter)
		found = &longer
	}
	return found
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
