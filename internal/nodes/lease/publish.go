package lease

import (
	"context"
	"fmt"
	"math"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/backoff"
)

// minPause returns the shortest pause between two renewals: a second, unless short Leases
// need less.
func (l *Leases) minPause() time.Duration { return min(time.Second, l.opt.Duration/10) }

// publish renews our Lease from the first Publish until ctx is done.
func (l *Leases) publish(ctx context.Context) {
	var last error
	next := time.Now().Add(math.MaxInt64) // the first Publish signals renew
	for backoff.Wait(ctx, time.Until(next), l.renew) {
		pause := l.pause() // before the write: a pause must suit the duration in the Lease
		err := l.renewNow(ctx)
		if ctx.Err() != nil {
			return
		}
		l.report(err, last)
		if last = err; err != nil {
			pause = l.opt.RetryPeriod
		}
		next = time.Now().Add(pause)
		if err == nil {
			backoff.Sleep(ctx, l.minPause())
		}
	}
}

// pause returns the time between two renewals of our Lease: a third of its duration, and up to a
// tenth of that more, so that agents that wrote together do not renew together for ever.
func (l *Leases) pause() time.Duration {
	return time.Duration(float64(l.duration()) / 3 * (1 + l.opt.Random()/10))
}

// duration returns the current duration of our Lease. It depends on the mode, and on whether another program
// has renewed our Lease lately.
func (l *Leases) duration() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.table.mode.Fast || time.Since(l.rival) < 2*l.opt.Duration {
		return l.opt.Duration
	}
	return max(slowDuration, l.opt.Duration)
}

// isRivals reports whether another program wrote o last, and renews it fast. An agent of PureLB 0.17 that ends
// after this one has begun does that, and at its end it deletes the Lease.
func (l *Leases) isRivals(o *coordinationv1.Lease) bool {
	instance, written := o.Annotations[AnnotationInstance]
	return written && instance != l.opt.Instance && durationOf(o, l.opt.Duration) < slowDuration
}

// report passes the result of an attempt to Renewed, and logs when it changes.
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

// renewNow writes our Lease once, unless Delete was called.
func (l *Leases) renewNow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.opt.RenewDeadline)
	defer cancel()
	release, err := l.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	if l.left {
		return nil
	}
	err = l.put(ctx)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		l.object = nil // another writer changed it: read it again
		err = l.put(ctx)
	}
	if err != nil {
		return fmt.Errorf("renew lease %s%s: %w", Prefix, l.opt.Node, err)
	}
	return nil
}

// hold waits until it is the only writer of our Lease.
func (l *Leases) hold(ctx context.Context) (release func(), err error) {
	select {
	case l.writing <- struct{}{}:
		return func() { <-l.writing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// put creates or updates our Lease.
func (l *Leases) put(ctx context.Context) error {
	o, err := l.current(ctx)
	if err != nil {
		return err
	}
	r, now := l.toPublish(o)
	l.write(o, r, l.duration(), now)
	if o.ResourceVersion == "" {
		o, err = l.opt.Client.Create(ctx, o, metav1.CreateOptions{})
	} else {
		o, err = l.opt.Client.Update(ctx, o, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	l.object = o
	l.update(func(t *table) {
		t.acknowledge(now)
		if t.unlisted() {
			backoff.Poke(l.look)
		}
	})
	return nil
}

// toPublish returns the record to publish now, and the time. o is our Lease before the write.
func (l *Leases) toPublish(o *coordinationv1.Lease) (r Record, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now = time.Now()
	if o.ResourceVersion == "" && l.table.settled.IsZero() {
		l.table.settling = l.table.settle // no other node knows this node
	}
	if l.isRivals(o) {
		l.rival = now
		backoff.Poke(l.renew) // the pause until the next renewal may be that of a slow Lease
	}
	if !l.known {
		l.known, l.inherited = true, inherit(o, now)
	}
	return *l.record, now
}

// current returns a copy of our Lease to write into, or an empty Lease if there is none.
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

// Delete deletes our Lease, so that the other nodes need not wait until it expires. It is
// for an agent that leaves for good and has withdrawn its addresses. The agent does not
// write the Lease again. Delete keeps a Lease that another agent on this node has taken
// over.
func (l *Leases) Delete(ctx context.Context) error {
	release, err := l.hold(ctx)
	if err == nil {
		defer release()
		l.left = true
		err = l.remove(ctx)
		for apierrors.IsConflict(err) { // a renewal that we gave up may still have reached the server
			err = l.remove(ctx)
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete lease %s%s: %w", Prefix, l.opt.Node, err)
	}
	return nil
}

func (l *Leases) remove(ctx context.Context) error {
	o, err := l.opt.Client.Get(ctx, Prefix+l.opt.Node, metav1.GetOptions{})
	if err != nil || o.Annotations[AnnotationInstance] != l.opt.Instance {
		return err
	}
	return l.opt.Client.Delete(ctx, o.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion},
	})
}
