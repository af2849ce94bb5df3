package allocator

import (
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseName is the Lease that the leader holds.
const leaseName = "purelb-allocator"

// Times of the leader election. Addresses are served without an allocator, so
// a dead leader may be missed for a while, in return for few writes; one that
// stops in order releases the Lease, and one that is restarted in its pod takes
// it up again at once.
var (
	leaseDuration = 20 * time.Second
	renewDeadline = 14 * time.Second
	retryPeriod   = 4 * time.Second
)

// lock returns the lock that leaders hold, in namespace. An identity that
// outlives the process, such as the name of its pod, must not be that of two
// processes at a time; without one, each process has its own.
func lock(cfg *rest.Config, namespace, identity string) (resourcelock.Interface, error) {
	if identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("name this process for the leader election: %w", err)
		}
		identity = host + "_" + string(uuid.NewUUID())
	}
	l, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, leaseName,
		resourcelock.ResourceLockConfig{Identity: identity}, cfg, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("make the lock of the leader election: %w", err)
	}
	return l, nil
}
