package agent

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/nodes/ending"
	"purelb.io/purelb/internal/testing/expect"
)

// endOf is an end that always has this cause.
type endOf ending.Cause

func (e endOf) Ending(context.Context) ending.Ending {
	return ending.Ending{Cause: ending.Cause(e), Reason: "the test says so"}
}

func TestADeletedNodeIsSeen(t *testing.T) {
	c := newCluster(t)
	caches, err := NewCaches(c.config, c.node, c.namespace)
	expect.NoError(t, err)
	if caches.nodeDeleted() {
		t.Error("the caches report a deleted node before they have read the nodes")
	}
	run(t, caches.Run)
	eventually(t, "the caches are complete", func() bool {
		_, complete := caches.Read()
		return complete
	})
	if caches.nodeDeleted() {
		t.Error("the caches report that an existing node is deleted")
	}
	expect.NoError(t, c.core.CoreV1().Nodes().Delete(t.Context(), c.node, metav1.DeleteOptions{}))
	eventually(t, "the caches report the deleted node", caches.nodeDeleted)
}
