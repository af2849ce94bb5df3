package peering

import "slices"

// The attributes of a route must fit into an UPDATE message of 4,096 bytes, which leaves 4,073 bytes
// for them. GoBGP panics for a longer IPv4 route, and drops an IPv6 one (osrg/gobgp#2629). The limits
// below leave room for the other attributes, which need 110 bytes at most.
//
//	a route of this node:  64 communities and 64 large ones, GRACEFUL_SHUTDOWN: 1,036 bytes
//	policies of a neighbor and of all neighbors: 1,400 bytes each
const (
	// mostCommunities is the longest list of communities, as in the schema of ServiceGroup.
	mostCommunities = 64
	// mostGrowth is how many bytes a list of policies may add to a route.
	mostGrowth = 1400
)

// Sizes in bytes.
const (
	sizeOfAS             = 4
	sizeOfCommunity      = 4
	sizeOfLargeCommunity = 12
)

// growth returns how many bytes the policies can add to one route. A route that a statement accepts
// does not reach the next statements.
func (r *reader) growth(policies []string) int {
	most := 0
	for _, name := range slices.Backward(policies) {
		for _, s := range slices.Backward(r.policies[name].statements) {
			switch s.Then.Verdict {
			case Continue:
				most += s.Then.growth()
			case Accept:
				most = max(most, s.Then.growth())
			}
		}
	}
	return most
}

func (a Actions) growth() int {
	n := a.Communities.added()*sizeOfCommunity + a.LargeCommunities.added()*sizeOfLargeCommunity
	if a.Prepend != nil {
		n += int(a.Prepend.Repeat) * sizeOfAS
	}
	return n
}

func (c *CommunityChange) added() int {
	if c == nil || c.Change == Remove {
		return 0
	}
	return len(c.List)
}
