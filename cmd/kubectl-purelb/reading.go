package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/explain"
)

// ask reads the kinds that answers need, and returns those that it cannot read. It fails if it can read none.
func (r *reader) ask(ctx context.Context, f *inventory) ([]explain.Unread, error) {
	asked := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.later || r.asked.noBGP && k.Group == bgpv1.GroupVersion.Group })
	errs := make([]error, len(asked))
	parallel(len(asked), len(asked), func(i int) {
		var opts []client.ListOption
		if k := asked[i]; k.home {
			opts = []client.ListOption{client.InNamespace(r.namespace), k.labels}
		}
		errs[i] = asked[i].read(ctx, r, f, opts...)
	})
	var unread []explain.Unread
	for i, k := range asked {
		if errs[i] != nil {
			unread = append(unread, unreadBy(k.known, errs[i]))
		}
	}
	if len(unread) < len(asked) {
		return unread, nil
	}
	return nil, unreadable(errs)
}

// unreadable returns the error of a reading in which every list failed, and says what to do. All
// errors usually have the same cause.
func unreadable(errs []error) error {
	i := slices.IndexFunc(errs, func(err error) bool { return !apierrors.IsForbidden(err) && !unserved(err) })
	switch {
	case i < 0:
		return fmt.Errorf("you have none of the rights that the answer needs; ask an administrator to bind the ClusterRole purelb-viewer to you: %w", errs[0])
	case apierrors.IsUnauthorized(errs[i]):
		return fmt.Errorf("read the cluster: the API server does not accept your credentials; log in again, or choose another user with --user or --context: %w", errs[i])
	default:
		return fmt.Errorf("read the cluster: %w; \"kubectl cluster-info\" tests the connection", errs[i])
	}
}

// unserved reports whether the API server does not serve the requested kind.
func unserved(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

func unreadBy(kind string, err error) explain.Unread {
	switch {
	case unserved(err):
		return explain.NewUnread(kind, explain.NotServed, "")
	case apierrors.IsForbidden(err):
		return explain.NewUnread(kind, explain.Forbidden, "")
	}
	return explain.NewUnread(kind, explain.Failed, oneLine(err))
}

// hopeless reports whether another attempt cannot succeed: the credentials, the rights, the
// namespace or the certificate are wrong.
func hopeless(err error) bool {
	if errors.Is(err, errElsewhere) {
		return true
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return code == http.StatusUnauthorized || code == http.StatusForbidden
	}
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &unknown)
}

// serverClock reads the time from the responses of the API server. Leases expire by that time: the
// clock of the user's machine may be wrong by more than the duration of a Lease.
type serverClock struct{ said atomic.Pointer[time.Time] }

func (c *serverClock) wrap(next http.RoundTripper) http.RoundTripper {
	return listener{c, next}
}

type listener struct {
	*serverClock
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (l listener) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.next.RoundTrip(r)
	if err == nil {
		if t, wrong := http.ParseTime(answer.Header.Get("Date")); wrong == nil {
			l.said.Store(&t)
		}
	}
	return answer, err
}

// now returns the time of the API server, or of this machine if no response had a time.
func (c *serverClock) now() time.Time {
	if t := c.said.Load(); t != nil {
		return *t
	}
	return time.Now()
}
