package ipamserver

import (
	"context"
	"sync"
)

// locks let only one call at a time work on each holder. A holder is a pool and a service.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

// lock is the lock of a holder while there are calls for it.
type lock struct {
	free  chan struct{} // has a value while no call works
	calls int
}

// take waits for earlier calls until ctx ends. The caller must call done.
func (l *locks) take(ctx context.Context, holder string) (done func(), err error) {
	l.mu.Lock()
	one := l.held[holder]
	if one == nil {
		one = &lock{free: make(chan struct{}, 1)}
		one.free <- struct{}{}
		l.held[holder] = one
	}
	one.calls++
	l.mu.Unlock()
	select {
	case <-one.free:
		return func() { one.free <- struct{}{}; l.leave(holder, one) }, nil
	case <-ctx.Done():
		l.leave(holder, one)
		return nil, ctx.Err()
	}
}

func (l *locks) leave(holder string, one *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.calls--; one.calls == 0 {
		delete(l.held, holder)
	}
}
