package e2e

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Promise: annotations of others' making harm nobody. Other programs may replace or remove all
// annotations of a Service at any rate: its addresses stay announced.

// editor is a program that edits Services as soon as they differ from what it wants.
type editor struct {
	*world
	edit func(*corev1.Service) (changed bool)

	mu sync.Mutex
	// own are the versions that the editor wrote. others counts those of PureLB, and edits its own.
	own           map[string]bool
	others, edits map[string]int
	// denied are the times at which a condition of PureLB said False.
	denied []string
}

// edits starts an editor. The Services are those of the test.
func (w *world) edits(edit func(*corev1.Service) bool) *editor {
	w.t.Helper()
	e := &editor{world: w, edit: edit, own: map[string]bool{}, others: map[string]int{}, edits: map[string]int{}}
	follows := w.followServices(e.see)
	w.t.Cleanup(func() {
		if err := follows.end(); err != nil {
			w.t.Error(err)
		}
	})
	return e
}

func (e *editor) see(event watch.EventType, seen *corev1.Service) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if event == watch.Deleted || e.edit == nil {
		return
	}
	if event != watch.Added && !e.own[seen.ResourceVersion] {
		e.others[seen.Name]++
	}
	if c := meta.FindStatusCondition(seen.Status.Conditions, "purelb.io/Allocated"); c == nil || c.Status != "True" {
		e.denied = append(e.denied, fmt.Sprintf("%s: %s says %v", time.Now().Format(time.StampMilli), seen.Name, c))
	}
	if svc := seen.DeepCopy(); e.edit(svc) && e.Update(e.ctx, svc, client.FieldOwner("operator")) == nil {
		e.own[svc.ResourceVersion] = true
		e.edits[svc.Name]++
	}
}

// stop ends the edits. It fails the test if a condition said False, or if PureLB wrote into a
// Service more often than the promise allows.
func (e *editor) stop(d time.Duration) {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.edit = nil
	if len(e.denied) > 0 {
		e.t.Errorf("conditions that say that a Service lacks something:\n%s", strings.Join(e.denied, "\n"))
	}
	for name, n := range e.others {
		e.t.Logf("%s was edited %d times, and PureLB wrote %d times in %s", name, e.edits[name], n, d.Round(time.Second))
		if most := writesPerMinute * int(1+d/time.Minute); n > most {
			e.t.Errorf("PureLB wrote into %s %d times, want at most %d", name, n, most)
		}
		if e.edits[name] < 2 {
			e.t.Errorf("the editor did not fight for %s", name)
		}
	}
}

// annotatedAgain waits until a Service has PureLB's annotations.
func (w *world) annotatedAgain(name string) {
	w.t.Helper()
	w.until(time.Minute, name+" has its annotations again", func() bool {
		return w.service(name).Annotations["purelb.io/allocated-addresses"] != ""
	})
}

// strangersFor is how long programs fight. STRANGERS sets another time.
func strangersFor(t *testing.T) time.Duration {
	d, err := time.ParseDuration(cmp.Or(os.Getenv("STRANGERS"), "20s"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAnOperatorThatReplacesAllAnnotationsLosesNothing(t *testing.T) {
	d := strangersFor(t)
	w := newWorldFor(t, d)
	s := watchLocal(w)
	// BFD would drop the nodes when this machine does not run the router for a second.
	w.peer(withoutBFD)
	w.apply(service("far", "remote"))
	far := w.addresses("far", families())
	w.answers(far...)
	s.begin()
	flood := w.spray(far)
	holder, n := s.holder(), 0
	e := w.edits(func(svc *corev1.Service) bool {
		if svc.Annotations["purelb.io/allocated-by"] == "" && svc.Annotations["purelb.io/announcing-IPv4"] == "" {
			return false
		}
		n++
		svc.Annotations = map[string]string{"purelb.io/service-group": svc.Annotations["purelb.io/service-group"], "example.com/revision": fmt.Sprint(n)}
		return true
	})
	began := time.Now()
	time.Sleep(d) // the fight is what the scene looks at
	e.stop(time.Since(began))
	flood.complain("the remote Service")
	s.end(nothing)
	s.stays(holder)
	w.toldOnce("AnnotationsReplaced", `field manager "operator"`)
	w.annotatedAgain("web")
	w.annotatedAgain("far")
}

// A tool enforces a manifest that was exported when the Service had another address.
func TestAnEnforcedExportOfAServiceLosesNothing(t *testing.T) {
	d := strangersFor(t)
	w := newWorldFor(t, d)
	s := watchLocal(w)
	old := w.service("web").Annotations
	old["purelb.io/allocated-addresses"] = "172.30.250.199"
	old["purelb.io/allocated-from"], old["purelb.io/pool-type"] = "remote", "remote"
	s.begin()
	holder := s.holder()
	e := w.edits(func(svc *corev1.Service) bool {
		changed := false
		for name, value := range old {
			changed = changed || svc.Annotations[name] != value
			svc.Annotations[name] = value
		}
		return changed
	})
	began := time.Now()
	time.Sleep(d) // the fight is what the scene looks at
	e.stop(time.Since(began))
	s.end(nothing)
	s.stays(holder)
	w.until(time.Minute, "the annotations are right again", func() bool {
		return w.service("web").Annotations["purelb.io/allocated-from"] == "local"
	})
}

// toldOnce waits for an event of type Normal in the namespace of the tests, and fails the test if it was
// written more often than once for each Service.
func (w *world) toldOnce(reason, text string) {
	w.t.Helper()
	w.eventually(reason)
	var events corev1.EventList
	if err := w.List(w.ctx, &events, client.InNamespace(namespace)); err != nil {
		w.t.Fatal(err)
	}
	of := map[types.UID]int32{}
	for _, e := range events.Items {
		if e.Reason != reason {
			continue
		}
		of[e.InvolvedObject.UID] += max(e.Count, 1)
		if e.Type != corev1.EventTypeNormal || !strings.Contains(e.Message, text) || of[e.InvolvedObject.UID] > 1 {
			w.t.Errorf("event %s %s (%d times): %s", e.Type, reason, of[e.InvolvedObject.UID], e.Message)
		}
	}
}
