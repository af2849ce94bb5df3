// Package apitest gives tests a real Kubernetes API server, with PureLB's
// custom resource definitions installed.
//
// It starts etcd and kube-apiserver on loopback, and ends both however the test ends. It does not
// know the code under test, and only tests import it. The cluster has no controllers and no nodes,
// so only the test changes objects.
//
// The usual way is one server per test package:
//
//	func TestMain(m *testing.M) { os.Exit(apitest.Run(m)) }
//
//	func TestSomething(t *testing.T) {
//		cfg := apitest.Config(t)       // starts the server at first use
//		ns := apitest.Namespace(t)     // a fresh namespace
//		...
//	}
//
// A test that needs its own server calls Start.
//
// The programs come from kubebox, a single binary that the lab also uses. "make kubebox" builds it.
// Without kubebox, tests fail instead of skipping.
// PURELB_APISERVER is the path of another binary whose kube-apiserver is used instead.
// "make e2e-oldest" sets it to that of the oldest Kubernetes.
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

// Run runs the tests of a package, and then ends the server if Shared has started one. It
// returns the exit code.
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

// Shared returns the server of this test binary, and starts it at first use. The package's
// TestMain must call Run, which ends the server.
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

// Config returns the connection to the server of this test binary, as administrator and
// without a client-side rate limit.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	return rest.CopyConfig(Shared(t).Config)
}

// Start returns a server for this test alone. It ends with the test.
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
