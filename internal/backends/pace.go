package backends

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"purelb.io/purelb/internal/ipam"
)

// A task that fails is tried again after a time that doubles: from the first to the longest.
// A person must mend what is misconfigured, which takes longer than a restart.
const (
	firstWait, longestWait     = time.Second, time.Minute
	firstMending, longestMends = 15 * time.Second, 5 * time.Minute
)

// pace says when a task that failed is tried again.
type pace struct {
	// fault is why the task failed last; nil when it did not.
	fault *ipam.Error
	// failures counts those in a row that are of one sort.
	failures int
	// next is when to try again. From soon on, new work is a reason to try at once.
	next, soon time.Time
}

// failed notes a failure. The jitter, in [0, 1), takes up to half of the time away, so that
// those who failed together do not return together.
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
	wait := min(float64(first)*math.Pow(2, float64(min(p.failures, 16)-1)), float64(longest)) * (1 - jitter/2)
	p.next = now.Add(max(time.Duration(wait), fault.RetryAfter))
	p.soon = now.Add(max(firstWait, fault.RetryAfter))
}

func (p *pace) succeeded() { *p = pace{} }

// result is what a task did.
type result struct {
	// count is how many things the task worked on. There was nothing to do when it is 0.
	count int
	// decided is how many of them the backend granted, released or refused.
	decided int
	// fault is why the others failed; nil when none did.
	fault *ipam.Error
}

// stops says whether the task is to wait. One thing that fails does not keep the others
// waiting, as long as the backend decides some and does not ask for time.
func (r result) stops() bool {
	return r.fault != nil && (r.decided == 0 || r.fault.RetryAfter > 0)
}

// severity orders faults: the first kind is what a person should see.
var severity = []ipam.Kind{ipam.KindMisconfigured, ipam.KindUnknown, ipam.KindUnavailable}

func rank(kind ipam.Kind) int {
	if i := slices.Index(severity, kind); i >= 0 {
		return i
	}
	return len(severity)
}

// sum makes one result of the errors of a call. What is a fault among them, fault says.
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

// rootOf returns err as the error of a backend that is below it; nil for nil.
func rootOf(err error) *ipam.Error {
	if err == nil {
		return nil
	}
	return root(ipam.AsError(err))
}

// faultOf returns the error of a backend that does not work; nil for a success, and for the
// refusal of one claim.
func faultOf(err error) *ipam.Error {
	if e := rootOf(err); e != nil && slices.Contains(severity, e.Kind) {
		return e
	}
	return nil
}

// root returns the error that kept e from being tried, if there is one: all errors of an
// outage have the same message then.
func root(e *ipam.Error) *ipam.Error {
	var cause *ipam.Error
	for errors.As(e.Cause, &cause) {
		e = cause
	}
	return e
}

// worse returns the fault that people should see, with the longer time to wait.
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
