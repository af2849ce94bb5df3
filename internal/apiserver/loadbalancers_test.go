package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"weak"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
)

var noLog = slog.New(slog.DiscardHandler)

// services is an API server with Services. An old one refuses to select them by their type.
type services struct {
	old    bool
	items  []corev1.Service
	events *watch.FakeWatcher
	asked  []string
}

func (s *services) source() *toolscache.ListWatch {
	answer := func(verb string, o metav1.ListOptions) error {
		s.asked = append(s.asked, strings.TrimSpace(verb+" "+o.FieldSelector))
		if s.old && o.FieldSelector != "" {
			return apierrors.NewBadRequest(`"spec.type" is not a known field selector`)
		}
		return nil
	}
	return &toolscache.ListWatch{
		ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (apiruntime.Object, error) {
			if err := answer("list", o); err != nil {
				return nil, err
			}
			return &corev1.ServiceList{Items: slices.Clone(s.items)}, nil
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if err := answer("watch", o); err != nil {
				return nil, err
			}
			s.events = watch.NewFakeWithChanSize(10, false)
			return s.events, nil
		},
	}
}

func typed(name string, kind corev1.ServiceType, version string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: version},
		Spec:       corev1.ServiceSpec{Type: kind},
	}
}

func list(t *testing.T, from *toolscache.ListWatch) string {
	t.Helper()
	found, err := from.ListWithContext(t.Context(), metav1.ListOptions{})
	must(t, err)
	var names []string
	for _, s := range found.(*corev1.ServiceList).Items {
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}

func TestTheAPIServerSelectsServicesByType(t *testing.T) {
	api := &services{items: []corev1.Service{*typed("a", corev1.ServiceTypeLoadBalancer, "1")}}
	from := LoadBalancers(api.source(), noLog)
	equal(t, "listed", list(t, from), "a")
	if _, err := from.WatchWithContext(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	equal(t, "the requests", strings.Join(api.asked, ", "), "list spec.type=LoadBalancer, watch spec.type=LoadBalancer")
}

// Before Kubernetes 1.31, Services cannot be selected by their type.
func TestAnOldAPIServerShowsTheSameServices(t *testing.T) {
	const balanced, internal = corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeClusterIP
	api := &services{old: true, items: []corev1.Service{*typed("a", balanced, "1"), *typed("b", internal, "2"), *typed("c", balanced, "3")}}
	from := LoadBalancers(api.source(), noLog)
	equal(t, "listed", list(t, from), "a c")
	events, err := from.WatchWithContext(t.Context(), metav1.ListOptions{})
	must(t, err)
	api.events.Modify(typed("b", internal, "4"))
	api.events.Add(typed("d", internal, "5"))
	api.events.Modify(typed("d", balanced, "6"))
	api.events.Modify(typed("a", internal, "7"))
	api.events.Delete(typed("c", balanced, "8"))
	api.events.Delete(typed("b", internal, "9"))
	api.events.Action(watch.Bookmark, typed("", "", "10"))
	var got []string
	for range 4 {
		e := <-events.ResultChan()
		svc := e.Object.(*corev1.Service)
		got = append(got, fmt.Sprintf("%s %s %s %s", e.Type, svc.Name, svc.Spec.Type, svc.ResourceVersion))
	}
	want := []string{"MODIFIED d LoadBalancer 6", "DELETED a LoadBalancer 7", "DELETED c LoadBalancer 8", "BOOKMARK   10"}
	if !slices.Equal(got, want) {
		t.Errorf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Most of a cluster's Services may be of another type, and a Service may be large.
func TestTheSelectionHoldsNoServices(t *testing.T) {
	const balanced, internal = corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeClusterIP
	api := &services{old: true}
	from := LoadBalancers(api.source(), noLog)
	var held []weak.Pointer[corev1.Service]
	func() {
		api.items = []corev1.Service{*typed("a", balanced, "1"), *typed("b", internal, "2")}
		found, err := from.ListWithContext(t.Context(), metav1.ListOptions{})
		must(t, err)
		events, err := from.WatchWithContext(t.Context(), metav1.ListOptions{})
		must(t, err)
		added := typed("c", balanced, "3")
		api.events.Add(added)
		<-events.ResultChan()
		events.Stop()
		for range events.ResultChan() { // Its end is the end of the selection.
		}
		held = append(held, weak.Make(&found.(*corev1.ServiceList).Items[0]), weak.Make(added))
		api.items, api.events = nil, nil
	}()
	runtime.GC()
	for i, name := range []string{"a", "c"} {
		if held[i].Value() != nil {
			t.Errorf("Service %s is still held", name)
		}
	}
	runtime.KeepAlive(from)
}

// While the control plane is upgraded from Kubernetes 1.30, a newer API server may send the first
// page of a list, and an older one may refuse the selector of the next page.
func TestARefusedPageBeginsTheListAnew(t *testing.T) {
	const balanced = corev1.ServiceTypeLoadBalancer
	api := &services{items: []corev1.Service{*typed("a", balanced, "1"), *typed("b", balanced, "2")}}
	source := api.source()
	from := LoadBalancers(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (apiruntime.Object, error) {
			found, err := source.ListWithContext(ctx, o)
			if first := o.Limit > 0 && o.Continue == ""; first && err == nil {
				page := found.(*corev1.ServiceList)
				page.Items, page.Continue = page.Items[:1], "b"
				api.old = true
			}
			return found, err
		},
		WatchFuncWithContext: source.WatchFuncWithContext,
	}, noLog)
	found, _, err := pager.New(from.ListWithContext).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	equal(t, "listed Services", meta.LenList(found), 2)
	events, err := from.WatchWithContext(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, name := range []string{"a", "b"} {
		api.events.Modify(typed(name, corev1.ServiceTypeClusterIP, "3"))
		if e := <-events.ResultChan(); e.Type != watch.Deleted {
			t.Errorf("%s got another type, and the event is %s", name, e.Type)
		}
	}
}

// The control plane may be upgraded from Kubernetes 1.30, or a proxy in front of the API server
// may have refused a request.
func TestAnotherListAsksForTheSelection(t *testing.T) {
	api := &services{old: true}
	var log bytes.Buffer
	from := LoadBalancers(api.source(), slog.New(slog.NewTextHandler(&log, nil)))
	for _, api.old = range []bool{true, true, false} {
		if _, err := from.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := from.WatchWithContext(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	got := strings.Join(api.asked, ", ")
	const refused = "list spec.type=LoadBalancer, list, watch, "
	if want := refused + refused + "list spec.type=LoadBalancer, watch spec.type=LoadBalancer"; got != want {
		t.Errorf("asked %s; want %s", got, want)
	}
	equal(t, "logged refusals", strings.Count(log.String(), "selectionRefused"), 1)
}

// A reflector stops a watch while an event waits.
func TestAStoppedSelectionEnds(t *testing.T) {
	for _, waiting := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			api := &services{old: true}
			from := LoadBalancers(api.source(), noLog)
			list(t, from)
			events, err := from.WatchWithContext(t.Context(), metav1.ListOptions{})
			must(t, err)
			for range waiting {
				api.events.Add(typed("a", corev1.ServiceTypeLoadBalancer, "1"))
			}
			synctest.Wait()
			events.Stop()
			synctest.Wait()
			if !api.events.IsStopped() {
				t.Error("the watch of all Services goes on")
			}
			select {
			case _, open := <-events.ResultChan():
				if open {
					t.Errorf("of %d events, one came after the end", waiting)
				}
			default:
				t.Errorf("with %d events, the selection goes on", waiting)
			}
		})
	}
}

// A reflector begins with a watch that sends the initial state, and lists if that fails.
func TestAListFollowsARefusedWatch(t *testing.T) {
	api := &services{old: true}
	from := LoadBalancers(api.source(), noLog)
	initial := true
	for range 2 {
		if _, err := from.WatchWithContext(t.Context(), metav1.ListOptions{SendInitialEvents: &initial}); err == nil {
			t.Fatal("an old API server sent the initial state")
		}
	}
	list(t, from)
	equal(t, "the requests", strings.Join(api.asked, ", "), "watch spec.type=LoadBalancer, list")
}
