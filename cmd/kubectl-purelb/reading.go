package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/explain"
)

// question is one list to read.
type question struct {
	kind string
	list client.ObjectList
	opts []client.ListOption
}

// ask reads all lists, and returns those that it cannot read. It fails if it can read none.
func ask(ctx context.Context, c client.Client, questions []question) ([]explain.Unread, error) {
	errs := make([]error, len(questions))
	var all sync.WaitGroup
	for i, q := range questions {
		all.Go(func() { errs[i] = list(ctx, c, q) })
	}
	all.Wait()
	var unread []explain.Unread
	for i, q := range questions {
		if errs[i] != nil {
			unread = append(unread, unreadBy(q.kind, errs[i]))
		}
	}
	if len(unread) < len(questions) {
		return unread, nil
	}
	return nil, unreadable(errs)
}

// unreadable returns the error of a reading in which every list failed, and says what to do. All
// errors usually have the same cause.
func unreadable(errs []error) error {
	switch other := firstOther(errs); {
	case other == nil:
		return fmt.Errorf("you have none of the rights that the answer needs; ask an administrator to bind the ClusterRole purelb-viewer to you: %w", errs[0])
	case apierrors.IsUnauthorized(other):
		return fmt.Errorf("read the cluster: the API server does not accept your credentials; log in again, or choose another user with --user or --context: %w", other)
	default:
		return fmt.Errorf("read the cluster: %w; \"kubectl cluster-info\" tests the connection", other)
	}
}

// firstOther returns the first error that is not about a right or an unknown kind.
func firstOther(errs []error) error {
	for _, err := range errs {
		if err != nil && !apierrors.IsForbidden(err) && !unserved(err) {
			return err
		}
	}
	return nil
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

// page is how many objects one request asks for.
const page = 1000

// list reads a list in pages, so that the API server or a proxy does not cut off a large response.
// If the pages expire before the last one, it reads the list in one request.
func list(ctx context.Context, c client.Client, q question) error {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		one := q.list.DeepCopyObject().(client.ObjectList)
		return one, c.List(ctx, one, append([]client.ListOption{client.Limit(o.Limit), client.Continue(o.Continue)}, q.opts...)...)
	})
	pages.PageSize = page
	all, _, err := pages.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	items, err := meta.ExtractList(all)
	if err != nil {
		return err
	}
	return meta.SetList(q.list, items)
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
type serverClock struct {
	mu   sync.Mutex
	said time.Time
}

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
			l.mu.Lock()
			l.said = t
			l.mu.Unlock()
		}
	}
	return answer, err
}
