package kube

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
)

// Watch keeps the used parts of the objects that a watch shows. It keeps nothing of unused
// objects, which may be ten thousand Services.
type Watch[T any] struct {
	// Failed, if set, is called for each request of the watch that fails.
	Failed func(ctx context.Context, err error)
	// Group, if set, returns the group of a part, for In.
	Group func(T) string

	source  *toolscache.ListWatch
	kind    runtime.Object
	keep    func(runtime.Object) (T, bool)
	same    func(a, b T) bool
	changed func(before, after *T)

	mu   sync.Mutex
	kept map[string]T
	// groups are the names in kept, by group.
	groups  map[string][]string
	synced  bool
	refused bool
}

// NewWatch returns a Watch on the objects of source, which are of type O. Run starts it.
//
// keep returns the used part of an object, or false if the object is unused. It may be called
// twice for an object. same reports whether two parts are equal for the program. changed is called
// after a part changes. There, nil means no part. changed is also called with two nils after the
// first list, and when the API server starts or stops refusing.
func NewWatch[O runtime.Object, T any](source *toolscache.ListWatch, keep func(O) (T, bool), same func(a, b T) bool, changed func(before, after *T)) *Watch[T] {
	var none O
	return &Watch[T]{
		source: source, kind: none, same: same, changed: changed, kept: map[string]T{}, groups: map[string][]string{},
		keep: func(o runtime.Object) (part T, ok bool) {
			if object, is := o.(O); is {
				return keep(object)
			}
			return part, false
		},
	}
}

// Watches are the watches of one kind, in several namespaces.
type Watches[T any] []*Watch[T]

// Run watches until ctx is done.
func (ws Watches[T]) Run(ctx context.Context) {
	var parts sync.WaitGroup
	for _, w := range ws {
		parts.Go(func() { w.Run(ctx) })
	}
	parts.Wait()
}

// All returns what all watches keep, and whether each has had a complete list.
func (ws Watches[T]) All() (kept []T, synced bool) {
	synced = true
	for _, w := range ws {
		these, seen := w.All()
		kept, synced = append(kept, these...), synced && seen
	}
	return kept, synced
}

// Selected lists and watches the objects of a typed client that choose selects.
func Selected[L runtime.Object](client interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error)
}, choose func(*metav1.ListOptions),
) *toolscache.ListWatch {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			choose(&o)
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			choose(&o)
			return client.Watch(ctx, o)
		},
	}
}

// Run watches until ctx is done.
func (w *Watch[T]) Run(ctx context.Context) {
	observed := *w.source
	observed.ListWithContextFunc = func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list, err := w.source.ListWithContextFunc(ctx, options)
		w.answered(ctx, err, true)
		return list, err
	}
	observed.WatchFuncWithContext = func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
		changes, err := w.source.WatchFuncWithContext(ctx, options)
		// If a watch cannot send the first objects, an ordinary list follows.
		w.answered(ctx, err, options.SendInitialEvents == nil)
		return changes, err
	}
	toolscache.NewReflectorWithOptions(&observed, w.kind, store[T]{w}, toolscache.ReflectorOptions{}).RunWithContext(ctx)
}

// answered records the result of a request. counts says that an error is a failure.
func (w *Watch[T]) answered(ctx context.Context, err error, counts bool) {
	w.mu.Lock()
	before := w.refused
	w.refused = apierrors.IsForbidden(err)
	news := w.refused != before
	w.mu.Unlock()
	if news {
		w.changed(nil, nil)
	}
	if err != nil && counts && w.Failed != nil && ctx.Err() == nil {
		w.Failed(ctx, err)
	}
}

// Refused reports whether the API server refuses to show the objects.
func (w *Watch[T]) Refused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

// Synced reports whether there was a complete list.
func (w *Watch[T]) Synced() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.synced
}

// All returns the kept parts, sorted by namespace and name, and whether there was a complete
// list.
func (w *Watch[T]) All() (kept []T, synced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := slices.AppendSeq(make([]string, 0, len(w.kept)), maps.Keys(w.kept))
	slices.Sort(names)
	kept = slices.Grow(kept, len(names))
	for _, name := range names {
		kept = append(kept, w.kept[name])
	}
	return kept, w.synced
}

// In returns the kept parts of these groups, in no order, and whether there was a complete
// list. It does not visit the other parts.
func (w *Watch[T]) In(groups map[string]bool) (kept []T, synced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for group := range groups {
		for _, name := range w.groups[group] {
			kept = append(kept, w.kept[name])
		}
	}
	return kept, w.synced
}

// enter adds the part of this name to its group.
func (w *Watch[T]) enter(name string, part *T) {
	if w.Group != nil && part != nil {
		group := w.Group(*part)
		w.groups[group] = append(w.groups[group], name)
	}
}

// leave removes the part of this name from its group.
func (w *Watch[T]) leave(name string, part *T) {
	if w.Group == nil || part == nil {
		return
	}
	group := w.Group(*part)
	w.groups[group] = slices.DeleteFunc(w.groups[group], func(n string) bool { return n == name })
	if len(w.groups[group]) == 0 {
		delete(w.groups, group)
	}
}

// store is what the reflector of a Watch writes to.
type store[T any] struct{ *Watch[T] }

// shown is the kept part of an object. An unused object has only its name here.
type shown[T any] struct {
	name string
	part T
	used bool
}

// GetObjectMeta gives the reflector the name of s.
func (s shown[T]) GetObjectMeta() metav1.Object {
	namespace, name, _ := strings.Cut(s.name, "/")
	return &metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// Transformer makes the reflector convert the first objects to shown.
func (w store[T]) Transformer() toolscache.TransformFunc {
	return func(o any) (any, error) { return w.read(o) }
}

func (w store[T]) read(o any) (shown[T], error) {
	if s, is := o.(shown[T]); is {
		return s, nil
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return shown[T]{}, err
	}
	s := shown[T]{name: m.GetNamespace() + "/" + m.GetName()}
	if object, is := o.(runtime.Object); is {
		s.part, s.used = w.keep(object)
	}
	return s, nil
}

// Add stores a new object. The reflector calls Add, Update, Delete, Replace and Resync.
func (w store[T]) Add(o any) error { return w.Update(o) }

// Update stores a new or changed object.
func (w store[T]) Update(o any) error {
	s, err := w.read(o)
	if err == nil {
		w.put(s)
	}
	return err
}

// Delete removes an object.
func (w store[T]) Delete(o any) error {
	s, err := w.read(o)
	if err == nil {
		w.put(shown[T]{name: s.name})
	}
	return err
}

// Replace stores a complete list in one step.
func (w store[T]) Replace(list []any, _ string) error {
	kept := map[string]T{}
	for _, o := range list {
		s, err := w.read(o)
		if err != nil {
			return err
		}
		if s.used {
			kept[s.name] = s.part
		}
	}
	w.mu.Lock()
	before, first := w.kept, !w.synced
	w.kept, w.groups, w.synced = kept, map[string][]string{}, true
	for name := range kept {
		w.enter(name, partOf(kept, name))
	}
	w.mu.Unlock()
	for name := range kept {
		w.tell(partOf(before, name), partOf(kept, name))
	}
	for name := range before {
		if _, there := kept[name]; !there {
			w.tell(partOf(before, name), nil)
		}
	}
	if first {
		w.changed(nil, nil)
	}
	return nil
}

// Resync does nothing, because there is no queue.
func (w store[T]) Resync() error { return nil }

// put replaces the kept part of an object by that of s, and reports the change.
func (w store[T]) put(s shown[T]) {
	w.mu.Lock()
	before := partOf(w.kept, s.name)
	if s.used {
		w.kept[s.name] = s.part
	} else {
		delete(w.kept, s.name)
	}
	after := partOf(w.kept, s.name)
	w.leave(s.name, before)
	w.enter(s.name, after)
	w.mu.Unlock()
	w.tell(before, after)
}

// tell reports a change from before to after, if they differ.
func (w store[T]) tell(before, after *T) {
	if before != after && (before == nil || after == nil || !w.same(*before, *after)) {
		w.changed(before, after)
	}
}

func partOf[T any](kept map[string]T, name string) *T {
	if part, there := kept[name]; there {
		return &part
	}
	return nil
}
