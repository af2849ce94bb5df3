package agent

import (
	"context"
	"runtime/debug"
)

// manyMore is by how many the number of addresses must change until it is worth
// while to give back the memory that this took.
const manyMore = 1000

// spare has memory be given back when many addresses have come or gone and nothing
// more is to be done about it. Left alone, the runtime holds for good what they
// needed on their way, as hardly anything happens afterwards.
func (a *Agent) spare(addresses int, done *outcome) {
	busy := len(done.added)+len(done.gone)+len(done.waiting)+len(done.parting) > 0
	if d := addresses - a.spared; busy || -manyMore < d && d < manyMore {
		return
	}
	a.spared = addresses
	done.errands = append(done.errands, func(context.Context) note {
		debug.FreeOSMemory()
		return nil
	})
}
