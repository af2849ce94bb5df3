package bfd

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestARemovedSessionEndsWithoutAFailure(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		set(t, p.here)
		p.pass(10 * ms)
		p.eventsAre(p.there, "192.0.2.1 Up>Down (neighbor signaled session down) by its operator\n")
		p.eventsAre(p.here, "")
		if got := p.here.Status(); len(got) != 0 {
			t.Errorf("the status has the removed session: %+v", got)
		}
		if p.left.listens != 0 || p.left.mouths != 0 {
			t.Errorf("%d and %d sockets are open, want none", p.left.listens, p.left.mouths)
		}
		got := status(p.there, left)
		if got.Remote != AdminDown || got.RemoteDiagnostic != administratively {
			t.Errorf("the status of the other end is %+v", got)
		}
	})
}

func TestTheEndIsSentUntilTheOtherEndAnswers(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		p.left.set(func(n *node) { n.cut = true })
		set(t, p.here)
		p.pass(2 * ms) // the first packet is lost
		p.left.set(func(n *node) { n.cut = false })
		p.pass(2 * time.Second)
		p.eventsAre(p.there, "192.0.2.1 Up>Down (neighbor signaled session down) by its operator\n")
		if p.left.listens != 0 || p.left.mouths != 0 {
			t.Error("the engine still waits for an answer")
		}
	})
}

func TestARemovedSessionCanBeAddedAtOnce(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		p.right.set(func(n *node) { n.frozen = true })
		set(t, p.here)
		set(t, p.here, to(right, 300*ms, 3))
		p.right.thaw()
		p.pass(5 * time.Second)
		p.stateIs(p.here, right, Up)
		p.stateIs(p.there, left, Up)
		if p.left.mouths != 1 {
			t.Errorf("%d sending sockets are open, want 1", p.left.mouths)
		}
	})
}

func TestCloseWaitsForTheOtherEnds(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		at := time.Now()
		if err := p.here.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(at); took > 5*ms {
			t.Errorf("Close took %v", took)
		}
		p.eventsAre(p.there, "192.0.2.1 Up>Down (neighbor signaled session down) by its operator\n")
		if err := p.here.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := p.here.Set(t.Context(), nil); !errors.Is(err, errClosed) {
			t.Errorf("Set of a closed engine returns %v", err)
		}
		if got := p.here.Status(); got != nil {
			t.Errorf("the status of a closed engine is %+v, want none", got)
		}
	})
}

func TestCloseDoesNotWaitForASilentNeighbor(t *testing.T) {
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		p.right.set(func(n *node) { n.cut = true })
		at := time.Now()
		if err := p.here.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(at); took > 900*ms {
			t.Errorf("Close took %v", took)
		}
	})
	together(t, func(t *testing.T, p *pair) {
		p.usual()
		p.right.set(func(n *node) { n.cut = true })
		ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		if err := p.here.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if p.left.listens != 0 || p.left.mouths != 0 {
			t.Error("sockets are open after Close")
		}
	})
}
