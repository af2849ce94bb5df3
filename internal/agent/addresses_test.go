package agent

import (
	"errors"
	"testing"
	"time"
)

// A node with a full routing table needs seconds to read it, and the kubelet waits for one
// second for the answer of a probe.
func TestServiceAddressesNeedNoObservation(t *testing.T) {
	k := newFakeKernel(ours("eth0", "192.0.2.9/24", 5*time.Minute))
	k.dumpErr = errors.New("read IPv4 routes: the deadline is over")
	services, err := serviceAddresses(k)(t.Context())
	if err != nil || len(services) != 1 || !services[addrOf("192.0.2.9")] {
		t.Errorf("%v, %v", services, err)
	}
	if k.looks > 0 {
		t.Error("it observes the node")
	}
}
