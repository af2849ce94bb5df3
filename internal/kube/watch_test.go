package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"purelb.io/purelb/internal/testing/expect"
)

// shownNodes is an API server with Nodes.
type shownNodes struct {
	nodes   []corev1.Node
	changes *apiwatch.FakeWatcher
}

func (s *shownNodes) List(_ context.Context, o metav1.ListOptions) (*corev1.NodeList, error) {
	if o.LabelSelector != "chosen" {
		return nil, errors.New("nothing was chosen")
	}
	return &corev1.NodeList{Items: s.nodes}, nil
}

func (s *shownNodes) Watch(_ context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
	if o.SendInitialEvents != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil) // this server lists on request only
	}
	return s.changes, nil
}

// world is a Watch that keeps the label "zone" of Nodes, and what it told.
type world struct {
	*Watch[string]
	server *shownNodes
	told   []string
}

func newWorld(nodes ...corev1.Node) *world {
	w := &world{server: &shownNodes{nodes: nodes, changes: apiwatch.NewFake()}}
	keep := func(n *corev1.Node) (string, bool) { return n.Labels["zone"], n.Labels["zone"] != "" }
	changed := func(before, after *string) { w.told = append(w.told, text(before)+">"+text(after)) }
	w.Watch = NewWatch(Selected(w.server, func(o *metav1.ListOptions) { o.LabelSelector = "chosen" }), keep, strings.EqualFold, changed)
	return w
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// show returns what was told since the last show, and what is kept now.
func (w *world) show() string {
	kept, synced := w.All()
	told := w.told
	w.told = nil
	return fmt.Sprint(told, kept, synced)
}

func node(name, zone string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}}
}

func ptr[T any](t T) *T { return &t }

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(node("b", "east"), node("a", "west"), node("c", ""))
		expect.Equal(t, "before it runs", w.show(), "[] [] false")
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go w.Run(ctx)
		synctest.Wait()
		slices.Sort(w.told)
		expect.Equal(t, "the first list", w.show(), "[> >east >west] [west east] true")
		for _, tt := range []struct {
			name   string
			change func(*corev1.Node)
			node   corev1.Node
			want   string
		}{
			{"a Node comes", func(n *corev1.Node) { w.server.changes.Add(n) }, node("d", "north"), "[>north] [west east north] true"},
			{"an unused Node comes", func(n *corev1.Node) { w.server.changes.Add(n) }, node("e", ""), "[] [west east north] true"},
			{"a part changes", func(n *corev1.Node) { w.server.changes.Modify(n) }, node("a", "south"), "[west>south] [south east north] true"},
			{"a part changes, but not for the program", func(n *corev1.Node) { w.server.changes.Modify(n) }, node("a", "South"), "[] [South east north] true"},
			{"a Node is used no more", func(n *corev1.Node) { w.server.changes.Modify(n) }, node("a", ""), "[South>] [east north] true"},
			{"a Node goes", func(n *corev1.Node) { w.server.changes.Delete(n) }, node("b", "east"), "[east>] [north] true"},
			{"an unused Node goes", func(n *corev1.Node) { w.server.changes.Delete(n) }, node("e", ""), "[] [north] true"},
		} {
			tt.change(&tt.node)
			synctest.Wait()
			expect.Equal(t, tt.name, w.show(), tt.want)
		}
	})
}

func TestPartsAreReadByTheirGroup(t *testing.T) {
	w := newWorld()
	w.Group = strings.ToLower
	to := store[string]{w.Watch}
	in := func(zones ...string) string {
		wanted := map[string]bool{}
		for _, zone := range zones {
			wanted[zone] = true
		}
		kept, synced := w.In(wanted)
		slices.Sort(kept)
		return fmt.Sprint(kept, synced)
	}
	check := func(name, got, want string) {
		t.Helper()
		expect.Equal(t, name, got, want)
	}
	check("before the first list", in("west"), "[] false")
	expect.NoError(t, to.Replace([]any{ptr(node("a", "west")), ptr(node("b", "West")), ptr(node("c", "east")), ptr(node("d", ""))}, ""))
	check("two of a group", in("west"), "[West west] true")
	check("two groups", in("west", "east"), "[West east west] true")
	check("an unknown group", in("north"), "[] true")
	for _, tt := range []struct {
		change    func(any) error
		node      corev1.Node
		west, all string
	}{
		{to.Update, node("b", "EAST"), "[west] true", "[EAST east west] true"},
		{to.Update, node("b", "East"), "[west] true", "[East east west] true"},
		{to.Add, node("e", "west"), "[west west] true", "[East east west west] true"},
		{to.Update, node("e", ""), "[west] true", "[East east west] true"},
		{to.Delete, node("a", "west"), "[] true", "[East east] true"},
		{to.Delete, node("d", ""), "[] true", "[East east] true"},
	} {
		expect.NoError(t, tt.change(&tt.node))
		check(tt.node.Name+" is in "+tt.node.Labels["zone"], in("west"), tt.west)
		check(tt.node.Name+" is in "+tt.node.Labels["zone"], in("west", "east"), tt.all)
	}
	expect.NoError(t, to.Replace([]any{ptr(node("f", "west"))}, ""))
	check("another list", in("west", "east"), "[west] true")
}

func TestAnotherListShowsWhatChangedMeanwhile(t *testing.T) {
	w := newWorld()
	to := store[string]{w.Watch}
	for _, tt := range []struct{ list, want string }{
		{"a=west b=east", "[> >east >west] [west east] true"},
		{"a=west b=east", "[] [west east] true"},
		{"b=South c=north", "[>north east>South west>] [South north] true"},
		{"", "[South> north>] [] true"},
	} {
		var list []any
		for _, one := range strings.Fields(tt.list) {
			name, zone, _ := strings.Cut(one, "=")
			list = append(list, ptr(node(name, zone)))
		}
		expect.NoError(t, to.Replace(list, ""))
		slices.Sort(w.told)
		expect.Equal(t, tt.list, w.show(), tt.want)
	}
}

func TestTheFirstObjectsAreCutDownAsTheyArrive(t *testing.T) {
	w := newWorld()
	to := store[string]{w.Watch}
	var list []any
	for _, n := range []corev1.Node{node("a", "west"), node("b", "")} {
		slim, err := to.Transformer()(&n)
		expect.NoError(t, err)
		key, err := toolscache.MetaNamespaceKeyFunc(slim)
		if err != nil || key != n.Name {
			t.Errorf("the key of %s is %q, %v", n.Name, key, err)
		}
		list = append(list, slim)
	}
	expect.NoError(t, to.Replace(list, ""))
	expect.Equal(t, "the result", w.show(), "[>west >] [west] true")
}

func TestARefusalIsNews(t *testing.T) {
	w := newWorld()
	failures := 0
	w.Failed = func(context.Context, error) { failures++ }
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	for _, tt := range []struct {
		name    string
		err     error
		counts  bool
		want    string
		refused bool
		failed  int
	}{
		{"a request succeeds", nil, true, "[] [] false", false, 0},
		{"it is refused", forbidden, true, "[>] [] false", true, 1},
		{"it is refused again", forbidden, true, "[] [] false", true, 2},
		{"it fails in another way", errors.New("away"), true, "[>] [] false", false, 3},
		{"a kind of request is unknown", errors.New("invalid"), false, "[] [] false", false, 3},
	} {
		w.answered(t.Context(), tt.err, tt.counts)
		if got := w.show(); got != tt.want || w.Refused() != tt.refused || failures != tt.failed {
			t.Errorf("%s: got %s, refused %v, failed %d times", tt.name, got, w.Refused(), failures)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if w.answered(ended, ended.Err(), true); failures != 3 {
		t.Error("the end is a failure")
	}
}

func TestTheObjectsOfSeveralWatchesAreOne(t *testing.T) {
	watch := func(synced bool, names ...string) *Watch[string] {
		w := &Watch[string]{kept: map[string]string{}, synced: synced}
		for _, name := range names {
			w.kept[name] = name
		}
		return w
	}
	for _, tt := range []struct {
		watches Watches[string]
		want    string
	}{
		{Watches[string]{watch(true, "a/x"), watch(true, "b/x", "b/y")}, "[a/x b/x b/y] true"},
		{Watches[string]{watch(true, "a/x"), watch(false)}, "[a/x] false"},
	} {
		kept, synced := tt.watches.All()
		expect.Equal(t, "the result", fmt.Sprint(kept, synced), tt.want)
	}
}
