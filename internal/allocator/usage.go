package allocator

import (
	"math"
	"math/big"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/pool"
)

// usage is how much of a group is in use.
type usage struct {
	group config.Group
	// size is how many addresses the group offers, as near as a float64 can
	// say.
	size float64
	// inUse and free count addresses of a family, those that the group has:
	// each once, however many Services share it. Counts stop at the largest
	// int64.
	inUse, free map[addr.Family]int64
}

// total is how many addresses of all families are in use.
func (u usage) total() int64 { return u.inUse[addr.V4] + u.inUse[addr.V6] }

// usages returns the usage of every group, in their order.
func (l *ledger) usages() []usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]usage, len(l.cluster.Config.Groups))
	for i, g := range l.cluster.Config.Groups {
		all[i] = usageOf(l.cluster.Book, g)
	}
	return all
}

func usageOf(book *pool.Book, g config.Group) usage {
	u := usage{group: g, inUse: map[addr.Family]int64{}, free: map[addr.Family]int64{}}
	for _, p := range g.Pools {
		f := p.Family()
		u.inUse[f] += book.InUse(p)
		u.free[f] = saturatingAdd(u.free[f], pool.Saturate(book.Available(p)))
		size, _ := new(big.Float).SetInt(p.Size()).Float64()
		u.size += size
	}
	return u
}

// saturatingAdd adds numbers that are not negative.
func saturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// known is how many Services the ledger knows.
func (l *ledger) known() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.uids)
}
