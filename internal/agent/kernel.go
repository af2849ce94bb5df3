package agent

import (
	"context"
	"net/netip"

	"purelb.io/purelb/internal/announce"
)

// Kernel is what the agent needs of the network stack.
type Kernel interface {
	// Observe returns what is on this node: all of it, or an error. The agent
	// removes what it does not want, and must not take "not seen" for "not
	// there".
	Observe(ctx context.Context) (announce.Node, error)
	// Changes signals that Observe may return something else, until ctx is
	// done. What this agent itself did to addresses may be left out.
	Changes(ctx context.Context) (<-chan struct{}, error)
	// Put makes the addresses be as they say. It does what it can; the error
	// joins an announce.AddressError for each that failed.
	Put(ctx context.Context, addresses []announce.Address) error
	// Remove takes the addresses off, and fails like Put. Removing what is not
	// there is not an error.
	Remove(ctx context.Context, addresses []announce.Address) error
	// EnsureDummy makes sure that the link for remote addresses is there.
	EnsureDummy(ctx context.Context, name string) (kind string, err error)
	// ForgetFlows ends the UDP flows to the addresses, and returns how many.
	ForgetFlows(ctx context.Context, addresses []netip.Addr) (int, error)
	// Claim tells the segment of a link once that the address is here.
	Claim(ctx context.Context, link string, address netip.Addr) error
	// Probe asks the segment of a link who has the addresses, and returns who
	// answered. Silence is an answer only if everybody could be heard.
	Probe(ctx context.Context, link string, addresses []netip.Addr, p announce.Probing) (map[netip.Addr][6]byte, error)
	// Listen tells what others say on the wire about the addresses that mine
	// returns, with their links, until ctx is done. mine is called from
	// elsewhere.
	Listen(ctx context.Context, mine func() map[netip.Addr]string) (<-chan announce.Heard, error)
}
