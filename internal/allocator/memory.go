package allocator

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// memories are what the loop of Services keeps of each Service between two rounds.
//
// The state of the world is read anew each time. A memory holds only what the API
// server does not tell: how the allocator's own last write went, how often it had to
// repeat itself, and what people were told already. A process that starts may lack
// all of it: the write gate and the takeover guard against the writes of processes
// before it.
type memories struct {
	mu sync.Mutex
	of map[types.NamespacedName]*memory
}

// memory is what the loop keeps of one Service. One worker at a time looks at a
// Service, so a memory needs no lock.
type memory struct {
	// last is the last write, as long as the cache may have the version that it was to
	// replace.
	last inflight
	// contest counts the writes that repeat each other.
	contest contest
	// refusal is what the API server said when it refused a write, and what people were
	// told. An admission policy or a webhook may refuse a write, and then no condition
	// can say so.
	refusal string
	// policyReset says that the external traffic policy was reset. It is reset once:
	// where it is Local again after that, a tool that keeps the manifest as it is has
	// set it back, and the allocator does not fight that tool.
	policyReset bool
}

// at returns the memory of the Service of this name.
func (m *memories) at(name types.NamespacedName) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[types.NamespacedName]*memory{}
	}
	if m.of[name] == nil {
		m.of[name] = &memory{}
	}
	return m.of[name]
}

// forget forgets a Service that is gone.
func (m *memories) forget(name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, name)
}

// inflight is a write whose outcome has not reached the cache.
type inflight struct {
	// version is the one that the write was to replace; "" is for no write.
	version string
	// done says that the API server has answered with another version. Otherwise the
	// outcome is not known: the API server may still do the write as long as the Service
	// has that version.
	done bool
}

// note notes how a write of svc went. The Service is as after then, which is nil
// after an error.
func (m *memory) note(svc, after *corev1.Service, err error) {
	m.last = inflight{version: svc.ResourceVersion, done: err == nil}
	// A conflict proves no newer version: a webhook may claim one.
	if err == nil && after.ResourceVersion == svc.ResourceVersion || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		m.last = inflight{}
	}
}

// outdates reports whether svc, which is from the cache, is of a version that the
// last write has replaced.
func (m *memory) outdates(svc *corev1.Service) bool {
	if m.last.version != svc.ResourceVersion {
		m.last = inflight{}
	}
	return m.last.done
}

// doubts reports whether svc may still become what the last write was to make it.
func (m *memory) doubts(svc *corev1.Service) bool {
	return m.last == inflight{version: svc.ResourceVersion}
}

// isNewRefusal notes what the API server said of a write, and reports whether that is
// something else than before.
func (m *memory) isNewRefusal(said string) bool {
	is := m.refusal != said
	m.refusal = said
	return is
}
