package allocator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
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
const (
	leaseDuration = 20 * time.Second
	renewDeadline = 14 * time.Second
	retryPeriod   = 4 * time.Second
)

// tenure is the lock of the leader election, which sees all that the election
// does with the Lease: it opens the fence for as long as the Lease is renewed,
// and knows whether the leader before us ended in order.
type tenure struct {
	resourcelock.Interface
	fence *fence
	// end ends this process, which another has taken the lead from.
	end func(error)

	mu sync.Mutex
	// holder is who held the Lease when we last read it, "" for nobody.
	holder string
	// leading is whether we have held the Lease; over, that we do no more.
	leading, over bool
	// unclean says that who held the Lease before us has not released it.
	unclean bool
}

var (
	errOvertaken = errors.New("another allocator has taken the Lease")
	errOver      = errors.New("the lead was given up")
)

// newTenure returns the lock that leaders hold, in namespace. An identity that
// outlives the process, such as the name of its pod, must not be that of two
// processes at a time; without one, each process has its own.
func newTenure(cfg *rest.Config, opt Options, f *fence, end func(error)) (*tenure, error) {
	identity := opt.Identity
	if identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("name this process for the leader election: %w", err)
		}
		identity = host + "_" + string(uuid.NewUUID())
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, opt.Namespace, leaseName,
		resourcelock.ResourceLockConfig{Identity: identity}, cfg, opt.RenewDeadline)
	if err != nil {
		return nil, fmt.Errorf("make the lock of the leader election: %w", err)
	}
	return &tenure{Interface: lock, fence: f, end: end}, nil
}

// Get implements resourcelock.Interface.
func (t *tenure) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := t.Interface.Get(ctx)
	if err == nil {
		t.see(record.HolderIdentity)
	}
	return record, raw, err
}

// see notes who holds the Lease. One who has led and finds that somebody else
// does, or did meanwhile, ends: what it knows was not looked after.
func (t *tenure) see(holder string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holder = holder
	if t.leading && !t.over && holder != t.Identity() {
		t.over = true
		t.fence.close()
		t.end(errOvertaken)
	}
}

// Create implements resourcelock.Interface.
func (t *tenure) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return t.take(func() error { return t.Interface.Create(ctx, r) })
}

// Update implements resourcelock.Interface.
func (t *tenure) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if r.HolderIdentity == "" {
		return t.release(func() error { return t.Interface.Update(ctx, r) })
	}
	return t.take(func() error { return t.Interface.Update(ctx, r) })
}

// take takes or renews the Lease.
func (t *tenure) take(write func() error) error {
	if t.isOver() {
		return errOver
	}
	sent := time.Now()
	if err := write(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.leading {
		t.leading, t.unclean = true, t.holder != ""
	}
	t.holder = t.Identity()
	t.fence.renew(sent)
	return nil
}

// release releases the Lease, unless a write of ours may still be done: then the
// next leader must not take it for a clean end.
func (t *tenure) release(write func() error) error {
	t.mu.Lock()
	t.over = true
	holder := t.holder
	t.mu.Unlock()
	t.fence.close()
	t.fence.wait()
	if holder != t.Identity() {
		return errOvertaken
	}
	if n := t.fence.doubts(); n > 0 {
		return fmt.Errorf("the Lease is left to expire: nobody knows if %d objects were written", n)
	}
	return write()
}

func (t *tenure) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// isUnclean reports whether a former leader has not released the Lease that we
// hold, so that writes of it may still be on their way. That it had our name
// says that it was killed, not that its writes were.
func (t *tenure) isUnclean() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unclean
}
