package lease

import (
	"context"
	"fmt"
	"math"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// publish renews our Lease from the first Publish until ctx is done.
func (l *Leases) publish(ctx context.Context) {
	next := time.NewTimer(math.MaxInt64)
	defer next.Stop()
	var last error
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		case <-l.renew:
		}
		err := l.renewNow(ctx)
		if ctx.Err() != nil {
			return
		}
		l.report(err, last)
		last = err
		if err != nil {
			next.Reset(l.opt.RetryPeriod)
		} else {
			next.Reset(l.opt.interval())
		}
	}
}

// report tells the outcome of an attempt to renew, and logs what changed.
func (l *Leases) report(err, last error) {
	if l.opt.Renewed != nil {
		l.opt.Renewed(err)
	}
	switch {
	case err != nil && last == nil:
		l.opt.Log.Warn("leaseNotRenewed", "node", l.opt.Node, "error", err)
	case err == nil && last != nil:
		l.opt.Log.Info("leaseRenewedAgain", "node", l.opt.Node)
	}
}

// renewNow writes our Lease once.
func (l *Leases) renewNow(ctx context.Context) error {
	l.mu.Lock()
	record := *l.record
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, l.opt.RenewDeadline)
	defer cancel()
	err := l.put(ctx, record)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		l.object = nil // somebody else wrote it: look again
		err = l.put(ctx, record)
	}
	if err != nil {
		return fmt.Errorf("renew lease %s%s: %w", Prefix, l.opt.Node, err)
	}
	return nil
}

// put creates or updates our Lease.
func (l *Leases) put(ctx context.Context, r Record) error {
	o, err := l.current(ctx)
	if err != nil {
		return err
	}
	// The API server keeps microseconds, and the echo must equal what was sent.
	now := time.Now()
	l.write(o, r, now.Truncate(time.Microsecond))
	l.send(o, now)
	if o.ResourceVersion == "" {
		o, err = l.opt.Client.Create(ctx, o, metav1.CreateOptions{})
	} else {
		o, err = l.opt.Client.Update(ctx, o, metav1.UpdateOptions{})
	}
	if err == nil {
		l.object = o
	}
	return err
}

// current returns a copy of our Lease to write into, an empty one if there is none.
func (l *Leases) current(ctx context.Context) (*coordinationv1.Lease, error) {
	if l.object != nil {
		return l.object.DeepCopy(), nil
	}
	o, err := l.opt.Client.Get(ctx, Prefix+l.opt.Node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &coordinationv1.Lease{}, nil
	}
	return o, err
}

// send notes a renewal before it is on its way, since the watch may be quicker
// than the answer.
func (l *Leases) send(o *coordinationv1.Lease, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table.send(versionOf(o), o.ResourceVersion == "", now)
}

// Delete removes our Lease, so that the others need not wait for it to expire:
// for an agent that leaves for good and has withdrawn its addresses. A Lease that
// another instance on this node has taken over stays.
func (l *Leases) Delete(ctx context.Context) error {
	name := Prefix + l.opt.Node
	o, err := l.opt.Client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete lease %s: %w", name, err)
	}
	if o.Annotations[AnnotationInstance] != l.opt.Instance {
		return nil
	}
	err = l.opt.Client.Delete(ctx, name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete lease %s: %w", name, err)
	}
	return nil
}
