package ipamgrpc

import (
	"sync"

	"purelb.io/purelb/internal/ipam"
)

// parallel is how many calls Claim and Release have in flight.
const parallel = 8

// each calls do for every item, several of them in parallel, and returns when all are done.
func each[T any](items []T, do func(T)) {
	queue := make(chan T)
	var workers sync.WaitGroup
	for range min(parallel, len(items)) {
		workers.Go(func() {
			for item := range queue {
				do(item)
			}
		})
	}
	for _, item := range items {
		queue <- item
	}
	close(queue)
	workers.Wait()
}

// outage records for all calls of a batch that the server is down, so that a thousand claims do not
// wait for a thousand deadlines.
type outage struct {
	mu    sync.Mutex
	first *ipam.Error
}

// note stores the fault of a call that the server did not end, and returns the fault.
func (o *outage) note(fault *ipam.Error) *ipam.Error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.first == nil {
		o.first = fault
	}
	return fault
}

// fault returns the error for a call that is skipped because another one failed, or nil.
func (o *outage) fault() *ipam.Error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.first == nil {
		return nil
	}
	kind := o.first.Kind
	if kind == ipam.KindUnknown {
		kind = ipam.KindUnavailable // this call was not sent
	}
	return &ipam.Error{Kind: kind, Message: "not asked, because " + o.first.Message, Cause: o.first}
}
