package agent

import (
	"iter"
	"net/netip"

	"purelb.io/purelb/internal/announce"
)

// subject is one address of one Service.
type subject struct {
	service string
	ip      netip.Addr
}

// told is what was told of every subject. It is replaced, never changed.
type told map[subject]fact

// fact is what there is to tell of a subject. The zero fact is nothing.
type fact struct {
	// decision is one of a whole plan, which is shown as long.
	decision *announce.Decision
	// failure is why the address is not there although it should be.
	failure string
}

// decided is the decision of f, zero if there is none.
func (f fact) decided() announce.Decision {
	if f.decision == nil {
		return announce.Decision{}
	}
	return *f.decision
}

// here says that the address was told to be on this node.
func (f fact) here() bool { return f.failure == "" && f.decided().Where != announce.Nowhere }

// alone is f beside another plan than its own, which it does not keep in memory.
func (f fact) alone() fact {
	d := f.decided()
	return fact{decision: &d, failure: f.failure}
}

// byService are the decisions of one Service after the other.
func byService(decisions []announce.Decision) iter.Seq[[]announce.Decision] {
	return func(yield func([]announce.Decision) bool) {
		first := 0
		for i := range decisions {
			if i+1 < len(decisions) && decisions[i+1].Service == decisions[i].Service {
				continue
			}
			if !yield(decisions[first : i+1]) {
				return
			}
			first = i + 1
		}
	}
}
