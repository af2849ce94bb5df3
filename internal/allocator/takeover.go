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

// takeover makes sure that writes of a former leader which has not released the Lease
// can only fail. It returns requests as they are then.
//
// Such a write gives an address, or a refusal, to a Service that looks as if it still
// had to get one. If this process gave the address to another Service, and the write
// arrived after that, two Services would have it. So takeover touches each such Service
// first. The write is for a version that is past then. If the write was done before,
// the API server's answer to the touch shows it.
func (o *bootstrap) takeover(ctx context.Context, requests []service.Request) ([]service.Request, error) {
	untouched := func() []service.Request {
		return slices.DeleteFunc(o.allocations.pending(requests), func(r service.Request) bool { return o.touched[owner(r)] })
	}
	// What one answer brings may have others look unserved.
	for todo := untouched(); len(todo) > 0; todo = untouched() {
		o.log.Info("touchingServices", "services", len(todo), "reason", "the former leader has not released the Lease")
		fresh, err := o.touchAll(ctx, todo)
		requests = renewed(requests, fresh)
		if err != nil {
			// What was touched may not have reached the cache when we try again.
			clear(o.touched)
			return nil, err
		}
		for _, r := range todo {
			o.touched[owner(r)] = true
		}
	}
	return requests, nil
}

// renewed is requests with those in fresh as they are there; nil is for one
// that is gone.
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

// touchAll touches Services, some at a time, and returns what they are then.
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

// touch changes the version of a Service, and returns what it asks for and holds
// then, or nil when it is gone. What it holds stays.
func (o *bootstrap) touch(ctx context.Context, name types.NamespacedName) (*service.Request, error) {
	for ctx.Err() == nil {
		svc := &corev1.Service{}
		err := o.live.Get(ctx, name, svc)
		if r := service.Read(svc, o.byDefault); err == nil && r.Owner != service.Anothers && !r.Displaced() {
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
		r := service.Read(svc, o.byDefault)
		return &r, nil
	}
	return nil, context.Cause(ctx)
}

// mark gives svc another version. A patch that changes nothing would leave the
// version as it is, so the condition names the time of the touch.
func (o *bootstrap) mark(ctx context.Context, svc *corev1.Service) (*corev1.Service, error) {
	patch, err := service.TakeoverPatch(svc, time.Now())
	if err != nil {
		return nil, err
	}
	return o.write.status(ctx, svc, patch)
}
