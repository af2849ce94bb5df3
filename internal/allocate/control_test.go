package allocate

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestLoopReportsErrorsUntilTheProcessEnds(t *testing.T) {
	failed := errors.New("read service e2e/web: context canceled")
	loop := untilEnd(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, failed
	}))
	ctx, end := context.WithCancel(t.Context())
	if _, err := loop.Reconcile(ctx, reconcile.Request{}); !errors.Is(err, failed) {
		t.Errorf("while the process runs, the error is %v, want %v", err, failed)
	}
	end()
	if _, err := loop.Reconcile(ctx, reconcile.Request{}); err != nil {
		t.Errorf("when the process ends, the error is %v, want none", err)
	}
}
