package allocator

import (
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"purelb.io/purelb/internal/pool"
)

// queue is that of the controller of Services, for those who have a Service
// looked at for reasons of their own. Before it is in use, nothing is queued:
// the controller begins with all Services anyway.
type queue struct {
	to atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]
}

func (q *queue) use(to workqueue.TypedRateLimitingInterface[reconcile.Request]) { q.to.Store(&to) }

// add has Services looked at.
func (q *queue) add(names ...types.NamespacedName) {
	to := q.to.Load()
	if to == nil {
		return
	}
	for _, n := range names {
		(*to).Add(reconcile.Request{NamespacedName: n})
	}
}

// wake is add for those who hold addresses.
func (q *queue) wake(owners ...pool.Owner) {
	for _, o := range owners {
		namespace, name, _ := strings.Cut(string(o), "/")
		q.add(types.NamespacedName{Namespace: namespace, Name: name})
	}
}
