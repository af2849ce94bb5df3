package gobgp

import "strings"

// Overflowed reports whether trace is that of a process that ended because a route did not fit into an
// UPDATE message. GoBGP then panics in a goroutine of its own, where a Server cannot catch it
// (osrg/gobgp#2629).
func Overflowed(trace string) bool {
	return strings.Contains(trace, "gobgp/v4/internal/pkg/table.(*packerV4).pack")
}
