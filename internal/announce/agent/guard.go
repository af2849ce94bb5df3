package agent

import (
	"context"

	"purelb.io/purelb/internal/announce"
)

// closePorts closes the node behind the addresses of Services. It comes before the pass adds addresses. A
// node that cannot close its ports says so, and announces nevertheless.
func (a *Agent) closePorts(ctx context.Context, seen *observation) {
	closed, known := announce.Closed(seen.Situation, seen.adopt)
	if !known {
		return
	}
	a.open = ""
	if err := a.Kernel.Guard(ctx, closed); err != nil {
		a.open = err.Error()
	}
}
