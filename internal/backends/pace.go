package backends

import (
	"fmt"
	"slices"
	"time"

	"purelb.io/purelb/internal/backoff"
	"purelb.io/purelb/internal/ipam"
)

// A failed task is tried again after a pause. The pause doubles with each failure, from the first
// to the longest. It is longer if a person must correct the configuration.
const (
	firstWait, longestWait     = time.Second, time.Minute
	firstMending, longestMends = 15 * time.Second, 5 * time.Minute
)

// pace says when a failed task is tried again.
type pace struct {
	// fault is why the task failed last, nil if it did not.
	fault *ipam.Error
	// failures counts consecutive failures of one kind.
	failures int
	// next is when to try again. After soon, the worker tries at once if there is new work.
	next, soon time.Time
}

// failed notes a failure. jitter, in [0, 1), shortens the pause by up to half, so that
// tasks that failed together do not retry together.
func (p *pace) failed(now time.Time, fault *ipam.Error, jitter float64) {
	if p.fault != nil && (p.fault.Kind == ipam.KindMisconfigured) != (fault.Kind == ipam.KindMisconfigured) {
		p.failures = 0
	}
	p.fault = fault
	p.failures++
	first, longest := firstWait, longestWait
	if fault.Kind == ipam.KindMisconfigured {
		first, longest = firstMending, longestMends
	}
	p.next = now.Add(max(backoff.After(p.failures, first, longest, jitter), fault.RetryAfter))
	p.soon = now.Add(max(firstWait, fault.RetryAfter))
}

func (p *pace) succeeded() { *p = pace{} }

// result is the outcome of a task.
type result struct {
	// count is how many items the task worked on. 0 means that there was nothing to do.
	count int
	// decided is how many of them the backend granted, released or refused.
	decided int
	// fault is why the others failed, nil if none did.
	fault *ipam.Error
}

// stops reports whether the task must wait. A failed item does not delay other items, if the
// backend decides about some of them and requests no pause.
func (r result) stops() bool {
	return r.fault != nil && (r.decided == 0 || r.fault.RetryAfter > 0)
}

// severity orders faults: people should see the first kind.
var severity = []ipam.Kind{ipam.KindMisconfigured, ipam.KindUnknown, ipam.KindUnavailable}

func rank(kind ipam.Kind) int {
	if i := slices.Index(severity, kind); i >= 0 {
		return i
	}
	return len(severity)
}

// sum combines the errors of a call into one result. The function fault says which errors
// are faults.
func sum(errs []error, fault func(error) *ipam.Error) result {
	r := result{count: len(errs)}
	for _, err := range errs {
		fault := fault(err)
		switch {
		case fault == nil:
			r.decided++
		case r.fault == nil:
			r.fault = fault
		default:
			r.fault = worse(r.fault, fault)
		}
	}
	return r
}

// rootOf returns the backend error inside err, nil for nil.
func rootOf(err error) *ipam.Error {
	if err == nil {
		return nil
	}
	return ipam.AsError(err).Root()
}

// faultOf returns the error of a backend that does not work. It returns nil for a success
// and for the refusal of one claim.
func faultOf(err error) *ipam.Error {
	if e := rootOf(err); e != nil && slices.Contains(severity, e.Kind) {
		return e
	}
	return nil
}

// worse returns the fault that people should see, with the longer pause of the two.
func worse(a, b *ipam.Error) *ipam.Error {
	if rank(b.Kind) < rank(a.Kind) {
		a, b = b, a
	}
	if b.RetryAfter <= a.RetryAfter {
		return a
	}
	longer := *a
	longer.RetryAfter = b.RetryAfter
	return &longer
}

func misconfigured(format string, args ...any) *ipam.Error {
	return &ipam.Error{Kind: ipam.KindMisconfigured, Message: fmt.Sprintf(format, args...)}
}
