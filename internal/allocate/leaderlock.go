package allocate

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

	"purelb.io/purelb/internal/backoff"
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
// the write gate open while the Lease is renewed, and knows how long writes of the previous leader may
// still take effect.
type leaderLock struct {
	resourcelock.Interface
	gate *writeGate
	// end ends this process after another allocator has taken the lead.
	end func(error)

	mu sync.Mutex
	// holder is the holder of the Lease as last read, or "". deleted says that the Lease is gone since.
	holder  string
	deleted bool
	// leading says that this process has held the Lease. over says that it has given up the lead.
	leading, over bool
	// settled is when the writes of the previous leader have ended.
	settled time.Time
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
		t.mu.Lock()
		defer t.mu.Unlock()
		t.deleted = true
	}
	return record, raw, err
}

// see notes the holder of the Lease. A process that has led ends when it sees another holder,
// because its state may be outdated.
func (t *leaderLock) see(record *resourcelock.LeaderElectionRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	holder := record.HolderIdentity
	t.holder, t.deleted = holder, false
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
		return t.release(ctx, func() error { return t.Interface.Update(ctx, r) })
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
		t.leading, t.settled = true, time.Now().Add(t.former())
	}
	t.holder = t.Identity()
	t.gate.renew(sent)
	return nil
}

// former returns how long writes of the previous leader may still take effect.
func (t *leaderLock) former() time.Duration {
	switch {
	case t.holder == "":
		return 0 // it released the Lease after that time
	case t.holder == t.Identity():
		return writeEnds // it was killed before this process started
	case t.deleted:
		return t.gate.lasts + writeEnds // it may not know that its Lease is gone
	}
	return 0 // its Lease expired after that time
}

// release releases the Lease when none of our writes can take effect any more.
func (t *leaderLock) release(ctx context.Context, write func() error) error {
	t.mu.Lock()
	t.over = true
	holder := t.holder
	t.mu.Unlock()
	t.gate.close()
	t.gate.wait()
	if holder != t.Identity() {
		return errOvertaken
	}
	if !backoff.Sleep(ctx, t.gate.quiet()) {
		return context.Cause(ctx)
	}
	return write()
}

func (t *leaderLock) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// quiet returns how long writes of the previous leader may still take effect.
func (t *leaderLock) quiet() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Until(t.settled)
}

// lead returns the holder of the Lease as last read, or "", and whether this process is the leader.
func (t *leaderLock) lead() (holder string, leading bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.holder, t.leading && !t.over
}
