package allocator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseName is the Lease that the leader holds.
const leaseName = "purelb-allocator"

// Times of the leader election. Agents serve addresses without an allocator, so the times may be
// long and the writes few. A leader that stops in an orderly way releases the Lease. A leader whose
// container restarts in its pod takes the Lease again at once.
const (
	leaseDuration = 20 * time.Second
	renewDeadline = 14 * time.Second
	retryPeriod   = 4 * time.Second
)

// leaderLock is the lock of the leader election. It sees each read and write of the Lease. It keeps
// the write gate open while the Lease is renewed, and knows whether the previous leader ended in an
// orderly way.
type leaderLock struct {
	resourcelock.Interface
	gate *writeGate
	// end ends this process after another allocator has taken the lead.
	end func(error)

	mu sync.Mutex
	// holder is the holder of the Lease as last read, or "". term is how long other allocators wait
	// for that holder.
	holder string
	term   time.Duration
	// missed is when this process first found that the Lease of holder was gone.
	missed time.Time
	// leading says that this process has held the Lease. over says that it has given up the lead.
	leading, over bool
	// unclean says that the previous holder did not release the Lease.
	unclean bool
}

var (
	errOvertaken = errors.New("another allocator has taken the Lease")
	errOver      = errors.New("the lead was given up")
)

// newLeaderLock returns the leaders' lock in namespace. An identity that outlives the process, such
// as the name of its pod, must belong to one process at a time. Without an identity, each process
// gets its own.
func newLeaderLock(cfg *rest.Config, opt Options, f *writeGate, end func(error)) (*leaderLock, error) {
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
	return &leaderLock{Interface: lock, gate: f, end: end}, nil
}

// Get implements resourcelock.Interface.
func (t *leaderLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := t.Interface.Get(ctx)
	switch {
	case err == nil:
		t.see(record)
	case apierrors.IsNotFound(err):
		err = t.miss(err)
	}
	return record, raw, err
}

// miss returns the error of a Lease that does not exist.
//
// A holder notices that its Lease was deleted only at its next renewal, and writes until then. So a
// standby process regards the Lease as held until the holder's last renewal must have expired. The
// elector creates a Lease only after a NotFound, so miss returns another error during that time.
// The holder creates the Lease again when it renews.
func (t *leaderLock) miss(notFound error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.leading || t.holder == "" || t.holder == t.Identity() {
		return notFound
	}
	if t.missed.IsZero() {
		t.missed = time.Now()
	}
	if left := t.term - time.Since(t.missed); left > 0 {
		// The election creates the Lease when this error wraps a NotFound.
		return fmt.Errorf("the Lease was deleted, and its holder %s may still write for %s", t.holder, left)
	}
	return notFound
}

// see notes the holder of the Lease. A process that has led ends when it sees another holder,
// because its state may be outdated.
func (t *leaderLock) see(record *resourcelock.LeaderElectionRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	holder := record.HolderIdentity
	t.holder, t.term, t.missed = holder, time.Duration(record.LeaseDurationSeconds)*time.Second, time.Time{}
	if t.leading && !t.over && holder != t.Identity() {
		t.over = true
		t.gate.close()
		t.end(errOvertaken)
	}
}

// Create implements resourcelock.Interface.
func (t *leaderLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return t.take(func() error { return t.Interface.Create(ctx, r) })
}

// Update implements resourcelock.Interface.
func (t *leaderLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if r.HolderIdentity == "" {
		return t.release(func() error { return t.Interface.Update(ctx, r) })
	}
	return t.take(func() error { return t.Interface.Update(ctx, r) })
}

// take takes or renews the Lease.
func (t *leaderLock) take(write func() error) error {
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
	t.gate.renew(sent)
	return nil
}

// release releases the Lease, unless the outcome of one of our writes is unknown. In that case the
// next leader must not see an orderly end.
func (t *leaderLock) release(write func() error) error {
	t.mu.Lock()
	t.over = true
	holder := t.holder
	t.mu.Unlock()
	t.gate.close()
	t.gate.wait()
	if holder != t.Identity() {
		return errOvertaken
	}
	if n := t.gate.doubts(); n > 0 {
		return fmt.Errorf("the Lease is left to expire: the outcome of writes to %d Services is not known", n)
	}
	return write()
}

func (t *leaderLock) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// isUnclean reports whether the previous leader did not release the Lease that we hold, so that its
// writes may still arrive. The previous leader may have had our identity: that process was killed,
// but its writes may still arrive.
func (t *leaderLock) isUnclean() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unclean
}

// lead returns the holder of the Lease as last read, or "", and whether this process is the leader.
func (t *leaderLock) lead() (holder string, leading bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.holder, t.leading && !t.over
}
