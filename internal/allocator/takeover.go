package allocator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/service"
)

// takeover makes late writes of a former leader fail, if that leader did not release the Lease. It
// returns the requests of the Services after that.
//
// Such a late write gives an address, or a refusal, to a Service that still seems to need one. If
// this process gave the same address to another Service, and then the late write arrived, two
// Services would have it. So takeover first touches each Service that still needs an address: it
// writes a new version of the Service. The late write fails, because it is for the old version. If
// the late write was first, the API server's answer to the touch shows it.
func (o *bootstrap) takeover(ctx context.Context, requests []service.Request) ([]service.Request, error) {
	untouched := func() []service.Request {
		return slices.DeleteFunc(o.allocations.pending(requests), func(r service.Request) bool { return o.touched[owner(r)] })
	}
	// An answer may change requests so that other Services need an address now.
	for todo := untouched(); len(todo) > 0; todo = untouched() {
		o.log.Info("touchingServices", "services", len(todo), "reason", "the former leader has not released the Lease")
		fresh, err := o.touchAll(ctx, todo)
		requests = renewed(requests, fresh)
		if err != nil {
			// The cache may not have the touched versions when open tries again.
			clear(o.touched)
			return nil, err
		}
		for _, r := range todo {
			o.touched[owner(r)] = true
		}
	}
	return requests, nil
}

// renewed returns requests, updated from fresh. A nil entry in fresh is a Service that is
// gone.
func renewed(requests []service.Request, fresh map[ipam.Owner]*service.Request) []service.Request {
	var now []service.Request
	for _, r := range requests {
		switch f, touched := fresh[owner(r)]; {
		case !touched:
			now = append(now, r)
		case f != nil:
			now = append(now, *f)
		}
	}
	return now
}

// touchAll touches Services in parallel, and returns their requests after that.
func (o *bootstrap) touchAll(ctx context.Context, todo []service.Request) (map[ipam.Owner]*service.Request, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	fresh := map[ipam.Owner]*service.Request{}
	var wg sync.WaitGroup
	turns := make(chan service.Request)
	for range o.workers {
		wg.Go(func() {
			for r := range turns {
				after, err := o.touch(ctx, types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
				if err != nil {
					cancel(err)
					continue
				}
				mu.Lock()
				fresh[owner(r)] = after
				mu.Unlock()
			}
		})
	}
	for _, r := range todo {
		turns <- r
	}
	close(turns)
	wg.Wait()
	return fresh, context.Cause(ctx)
}

// touch gives a Service a new version and returns its request after that, or nil if the
// Service is gone. It changes no address.
func (o *bootstrap) touch(ctx context.Context, name types.NamespacedName) (*service.Request, error) {
	for ctx.Err() == nil {
		svc := &corev1.Service{}
		err := o.live.Get(ctx, name, svc)
		if r := o.rules.Read(svc); err == nil && r.Owner != service.Anothers && !r.Displaced() {
			svc, err = o.mark(ctx, svc)
		}
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case apierrors.IsConflict(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("touch service %s: %w", name, err)
		}
		r := o.rules.Read(svc)
		return &r, nil
	}
	return nil, context.Cause(ctx)
}

// mark gives svc a new version. A patch that changes nothing would keep the version, so the
// condition names the time of the touch.
func (o *bootstrap) mark(ctx context.Context, svc *corev1.Service) (*corev1.Service, error) {
	patch, err := service.TakeoverPatch(svc, time.Now())
	if err != nil {
		return nil, err
	}
	return o.write.status(ctx, svc, patch)
}
