package speaker

import (
	"context"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
)

// watch is what the speaker keeps of the objects that a watch shows: only the used parts, and
// only of the used objects. Of ten thousand unused Services it keeps nothing.
type watch[T any] struct {
	client    rest.Interface
	resource  string
	namespace string
	selector  fields.Selector
	kind      runtime.Object
	// keep returns the used part of an object, and false if it has none.
	keep func(runtime.Object) (T, bool)
	// same reports whether two parts are equal for the speaker.
	same func(a, b T) bool
	// changed is called at every change of a kept part.
	changed func()

	mu        sync.Mutex
	kept      map[string]T
	synced    bool
	forbidden bool
}

// watches are the watches of one kind, in several namespaces.
type watches[T any] []*watch[T]

// run watches until ctx is done.
func (ws watches[T]) run(ctx context.Context) {
	var parts sync.WaitGroup
	for _, w := range ws {
		parts.Go(func() { w.run(ctx) })
	}
	parts.Wait()
}

// all returns what all watches keep, and whether each has had a complete list.
func (ws watches[T]) all() (kept []T, synced bool) {
	synced = true
	for _, w := range ws {
		these, seen := w.all()
		kept, synced = append(kept, these...), synced && seen
	}
	return kept, synced
}

// run watches until ctx is done.
func (w *watch[T]) run(ctx context.Context) {
	selector := w.selector
	if selector == nil {
		selector = fields.Everything()
	}
	source := toolscache.NewListWatchFromClient(w.client, w.resource, w.namespace, selector)
	toolscache.NewReflectorWithOptions(w.observed(source), w.kind, w, toolscache.ReflectorOptions{Name: w.resource}).RunWithContext(ctx)
}

// observed returns source, and records when the API server refuses it.
func (w *watch[T]) observed(source *toolscache.ListWatch) *toolscache.ListWatch {
	observed := *source
	observed.ListWithContextFunc = func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list, err := source.ListWithContextFunc(ctx, options)
		w.answered(err)
		return list, err
	}
	observed.WatchFuncWithContext = func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
		changes, err := source.WatchFuncWithContext(ctx, options)
		w.answered(err)
		return changes, err
	}
	return &observed
}

// answered records whether the API server refuses to show the objects.
func (w *watch[T]) answered(err error) {
	w.mu.Lock()
	before := w.forbidden
	w.forbidden = apierrors.IsForbidden(err)
	news := w.forbidden != before
	w.mu.Unlock()
	if news {
		w.changed()
	}
}

// refused reports whether the API server refuses to show the objects.
func (w *watch[T]) refused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.forbidden
}

// all returns the kept parts, sorted by name, and whether there was a complete list.
func (w *watch[T]) all() (kept []T, synced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(w.kept)) {
		kept = append(kept, w.kept[name])
	}
	return kept, w.synced
}

// Add takes in an object that came. The reflector calls it, Update, Delete, Replace and Resync.
func (w *watch[T]) Add(o any) error { return w.Update(o) }

// Update takes in an object that came or changed.
func (w *watch[T]) Update(o any) error {
	name, value, ok, err := w.read(o)
	if err != nil {
		return err
	}
	w.mu.Lock()
	before, was := w.kept[name]
	if ok {
		if w.kept == nil {
			w.kept = map[string]T{}
		}
		w.kept[name] = value
	} else {
		delete(w.kept, name)
	}
	w.mu.Unlock()
	if ok != was || ok && !w.same(before, value) {
		w.changed()
	}
	return nil
}

// Delete takes in that an object went.
func (w *watch[T]) Delete(o any) error {
	name, err := nameOf(o)
	if err != nil {
		return err
	}
	w.mu.Lock()
	_, was := w.kept[name]
	delete(w.kept, name)
	w.mu.Unlock()
	if was {
		w.changed()
	}
	return nil
}

// Replace takes in a complete list.
func (w *watch[T]) Replace(list []any, _ string) error {
	kept := map[string]T{}
	for _, o := range list {
		name, value, ok, err := w.read(o)
		if err != nil {
			return err
		}
		if ok {
			kept[name] = value
		}
	}
	w.mu.Lock()
	news := !w.synced || !maps.EqualFunc(w.kept, kept, w.same)
	w.kept, w.synced = kept, true
	w.mu.Unlock()
	if news {
		w.changed()
	}
	return nil
}

// Resync does nothing: there is no queue behind.
func (w *watch[T]) Resync() error { return nil }

func (w *watch[T]) read(o any) (name string, value T, ok bool, err error) {
	if name, err = nameOf(o); err != nil {
		return "", value, false, err
	}
	if object, is := o.(runtime.Object); is {
		value, ok = w.keep(object)
	}
	return name, value, ok, nil
}

func nameOf(o any) (string, error) {
	m, err := meta.Accessor(o)
	if err != nil {
		return "", err
	}
	return m.GetNamespace() + "/" + m.GetName(), nil
}
