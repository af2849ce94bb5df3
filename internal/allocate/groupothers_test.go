package allocate_test

import (
	"testing"

	"purelb.io/purelb/internal/service"
)

// Another controller has the Service and its address.
func TestADeletedGroupDoesNotStayForServicesOfOthers(t *testing.T) {
	w := newWorld(t)
	edge := w.edge("edge")
	w.create(edge)
	w.allocator()
	web := w.allocate(balancer("web", inGroup("edge")), "192.0.2.1")
	w.kept(edge, true)
	w.annotate(web, service.AnnotationLeave, "true")
	w.remove(edge)
	w.ends(edge)
}
