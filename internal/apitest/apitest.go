// Package apitest gives tests a real Kubernetes API server, with PureLB's
// custom resource definitions installed.
//
// It knows how to start etcd and kube-apiserver on loopback and how to end
// them, whatever becomes of the test. It knows nothing of what is tested, and
// is imported by tests only. There are no controllers and no nodes: an object
// is what its writers make of it.
//
// One server per test package is the usual way:
//
//	func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }
//
//	func TestSomething(t *testing.T) {
//		cfg := apitest.Config(t)       // starts the server at first use
//		ns := apitest.Namespace(t)     // a fresh namespace
//		...
//	}
//
// A test that wants a server of its own calls Start.
//
// The programs come from kubebox, the one binary that the lab is made of too;
// "make kubebox" builds it. Without it tests fail; they are not skipped.
package apitest

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// shared is the server of this test binary; Shared starts it and Run ends it.
var shared struct {
	sync.Mutex
	server *Server
	err    error
}

// Run runs the tests of a package and then ends the server that Shared may have
// started. It returns the code to exit with.
func Run(m *testing.M) int {
	code := m.Run()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		return code
	}
	if err := shared.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "apitest: stop the API server:", err)
		return max(code, 1)
	}
	return code
}

// Shared returns the server of this test binary. It starts it at first use; the
// package's TestMain must call Run, which ends it.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = start()
	}
	if shared.err != nil {
		t.Fatalf("apitest: %v", shared.err)
	}
	return shared.server
}

// Config returns how to reach the server of this test binary, as administrator
// and without a client-side rate limit.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	return rest.CopyConfig(Shared(t).Config)
}

// Start returns a server of the test's own, which ends with it.
func Start(t testing.TB) *Server {
	t.Helper()
	s, err := start()
	if err != nil {
		t.Fatalf("apitest: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("apitest: stop the API server: %v", err)
		}
	})
	return s
}
