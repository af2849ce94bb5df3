package allocate

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"purelb.io/purelb/internal/service"
)

// TestPanicInChooseEndsTheProcess starts itself again as a process whose choices panic. The
// panic ends that process before it makes a second decision.
func TestPanicInChooseEndsTheProcess(t *testing.T) {
	const panics = "PURELB_TEST_PANIC"
	if os.Getenv(panics) != "" {
		panicInALoop(t)
		return
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	again.Env = append(os.Environ(), panics+"=1")
	said, err := again.CombinedOutput()
	if err == nil {
		t.Errorf("the process has not ended by itself:\n%s", said)
	}
	if text := string(said); !strings.Contains(text, "panic: ") || strings.Contains(text, "deciding once more") {
		t.Errorf("want a panic and no second decision, the process says:\n%s", text)
	}
}

// panicInALoop runs a loop whose first decision panics, until the second one.
func panicInALoop(t *testing.T) {
	mgr, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
		MapperProvider: mapper, Logger: logr.Discard(), Metrics: server.Options{BindAddress: "0"},
	})
	must(t, err)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	broken, decided := newAllocations(nil), 0
	broken.cluster.Store = nil
	decide := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		if decided++; decided > 1 {
			t.Log("deciding once more")
			end()
			return reconcile.Result{}, nil
		}
		_, err := broken.decide(service.Request{Namespace: "default", Name: "web"})
		return reconcile.Result{}, err
	})
	one := source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.Add(reconcile.Request{})
		return nil
	})
	must(t, loop(mgr, "services", decide, 1, one))
	must(t, mgr.Start(ctx))
}
