package agent

import (
	"context"
	"runtime/debug"
)

// spare has memory be given back when many addresses have come or gone and nothing
// more is to be done about it.
func (a *Agent) spare(addresses int, done outcome) todo {
	if len(done.added)+len(done.gone)+len(done.waiting)+len(done.parting) > 0 || !a.burst.Over(addresses) {
		return todo{}
	}
	return todo{errands: []errand{func(context.Context) note {
		debug.FreeOSMemory()
		return nil
	}}}
}
