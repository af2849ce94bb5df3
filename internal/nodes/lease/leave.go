package lease

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
