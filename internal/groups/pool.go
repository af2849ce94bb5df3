package groups

import (
	"fmt"
	"iter"
	"math"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"purelb.io/purelb/internal/addr"
)

// Pool is a range of addresses for Services.
type Pool struct {
	// Range has all addresses of the pool. It lies inside Subnet.
	Range  addr.Range
	Subnet netip.Prefix
	// Bits is the length of the mask that an address of the pool has on the
	// dummy interface.
	Bits int
	// Explicit says that the user wrote the first and the last address. The pool then hands
	// out all addresses in between, including those that the subnet reserves.
	Explicit bool
	// Virtual says that Subnet is on no link, and that each address has its own route. So no
	// address is a network, broadcast or anycast address.
	Virtual bool
	// Exclude are the addresses of Range that the pool never hands out. These ranges
	// are sorted, and they neither overlap nor touch.
	Exclude []addr.Range
	// Draining says that the pool hands out no further address. Services keep the addresses
	// that they have.
	Draining bool
	// Text is the range as the user wrote it.
	Text string
}

// Family is the family of the addresses of p.
func (p Pool) Family() addr.Family { return p.Range.Family() }

// Contains reports whether a is in p.
func (p Pool) Contains(a netip.Addr) bool { return p.Range.Contains(a) }

// Prefix returns a with the mask that it has on the dummy interface.
func (p Pool) Prefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a.Unmap(), p.Bits) }

// Misread says how p reads a CIDR whose address is not its first one, and how else it could be read.
// It is "" for any other text.
func (p Pool) Misread() string {
	block, err := addr.ParseCIDR(p.Text)
	usable := p.Usable()
	if err != nil || block == block.Masked() || len(usable) == 0 {
		return ""
	}
	read := addr.Range{From: usable[0].From, To: usable[len(usable)-1].To}
	whole := p
	whole.Range = addr.Range{From: block.Masked().Addr(), To: addr.Last(block)}
	return fmt.Sprintf("%s is read as %s, %s addresses, and not as %s, %s addresses; write the one that is meant",
		addr.Quote(p.Text), read, p.Size(), block.Masked(), whole.Size())
}

// Usable returns the addresses that p hands out if it is not draining, ascending. These are its
// Range without the excluded addresses. If Range is not explicit, the result also lacks the
// addresses that the subnet reserves. It may be empty.
func (p Pool) Usable() []addr.Range { return slices.Collect(p.Segments()) }

// Size is the number of addresses in Usable.
func (p Pool) Size() *big.Int {
	size := new(big.Int)
	for r := range p.Segments() {
		size.Add(size, r.Size())
	}
	return size
}

// Excludes returns the excluded range that contains a, if there is one.
func (p Pool) Excludes(a netip.Addr) (addr.Range, bool) {
	for _, r := range p.Exclude {
		if r.Contains(a) {
			return r, true
		}
	}
	return addr.Range{}, false
}

// Reserves returns the purpose for which the subnet reserves a, if a is in p and p does not
// hand it out for that reason.
func (p Pool) Reserves(a netip.Addr) (purpose string, ok bool) {
	switch {
	case !p.Contains(a) || p.unreserved().Contains(a):
		return "", false
	case p.Family() == addr.V6:
		return "subnet-router anycast address", true
	case a.Unmap() == p.Subnet.Masked().Addr():
		return "network address", true
	}
	return "broadcast address", true
}

// HandsOut reports whether a is in Usable.
func (p Pool) HandsOut(a netip.Addr) bool {
	_, excluded := p.Excludes(a)
	return !excluded && p.unreserved().Contains(a)
}

// Segments yields the ranges of Usable.
func (p Pool) Segments() iter.Seq[addr.Range] {
	r := p.unreserved()
	if r.To.Less(r.From) {
		return func(func(addr.Range) bool) {}
	}
	return r.Without(p.Exclude)
}

// unreserved returns the range of p without the addresses that its subnet reserves. If
// none is left, the range begins after its end.
//
// A subnet reserves its first address, which is the network address in IPv4 and the
// subnet-router anycast address in IPv6 (RFC 4291 section 2.6.1). In IPv4 it reserves its
// last address too, for broadcast. Subnets of two addresses (RFC 3021, RFC 6164) and of
// one address reserve none, and neither does a virtual pool.
func (p Pool) unreserved() addr.Range {
	r, reserves := p.Range, p.Subnet.Bits() < p.Family().Bits()-1
	if p.Explicit || p.Virtual || !reserves {
		return r
	}
	if r.From == p.Subnet.Masked().Addr() {
		r.From = r.From.Next()
	}
	if p.Family() == addr.V4 && r.To == addr.Last(p.Subnet) {
		r.To = r.To.Prev()
	}
	return r
}

// Network is a range of addresses that are not handed out.
type Network struct {
	addr.Range
	// What names the network, such as "the Service network 10.96.0.0/16".
	What string
}

// ParseError says which part of the description of a pool is wrong.
type ParseError struct {
	// Field is "pool", "subnet", "aggregation", or one such as "exclude[0]".
	Field string
	// Reason says what is wrong with it and how to correct it.
	Reason string
}

func (e *ParseError) Error() string { return e.Field + " " + e.Reason }

// ParsePool reads a pool as the user writes it: its range, the subnet of the range, the
// mask of its addresses on the dummy interface ("/n", or "" or "default" for the mask of
// the subnet), and the addresses that it never hands out (see addr.ParseBlock). Errors are
// of type *ParseError.
func ParsePool(poolText, subnetText, aggregation string, exclude ...string) (Pool, error) {
	r, explicit, err := addr.ParseRange(poolText)
	if err != nil {
		return Pool{}, &ParseError{"pool", err.Error()}
	}
	subnet, err := addr.ParseCIDR(subnetText)
	if err != nil {
		return Pool{}, &ParseError{"subnet", err.Error()}
	}
	p := Pool{Range: r, Subnet: subnet.Masked(), Explicit: explicit, Text: strings.TrimSpace(poolText)}
	if reason := p.misplaced(); reason != "" {
		return Pool{}, &ParseError{"pool", addr.Quote(p.Text) + ": " + reason}
	}
	bits, reason := p.mask(aggregation)
	if reason != "" {
		return Pool{}, &ParseError{"aggregation", addr.Quote(aggregation) + ": " + reason}
	}
	p.Bits = bits
	for i, text := range exclude {
		r, reason := p.excluded(text)
		if reason != "" {
			return Pool{}, &ParseError{fmt.Sprintf("exclude[%d]", i), reason}
		}
		p.Exclude = append(p.Exclude, r)
	}
	p.Exclude = addr.Merge(p.Exclude)
	return p, nil
}

// excluded reads addresses that p never hands out. Addresses outside of p are a mistake:
// the user means other addresses, or another pool.
func (p Pool) excluded(text string) (r addr.Range, reason string) {
	r, err := addr.ParseBlock(text)
	switch {
	case err != nil:
		reason = err.Error()
	case r.Family() != p.Family():
		reason = fmt.Sprintf("%s: this is %s and the range of the pool, %s, is %s; both must be of one family",
			addr.Quote(text), r.Family(), p.Range, p.Family())
	case !r.Overlaps(p.Range):
		reason = fmt.Sprintf("%s: %s is not inside the range of the pool, %s; there is nothing to leave out", addr.Quote(text), r, p.Range)
	case !p.Contains(r.From) || !p.Contains(r.To):
		reason = fmt.Sprintf("%s: %s is not all inside the range of the pool, %s; write %s", addr.Quote(text), r, p.Range, p.Range.And(r))
	}
	return r, reason
}

// misplaced returns the reason why p cannot have its range in its subnet, or "".
func (p Pool) misplaced() string {
	if f := addr.FamilyOf(p.Subnet.Addr()); f != p.Family() {
		return fmt.Sprintf("the range is %s and the subnet %s is %s; both must be of one family", p.Family(), p.Subnet, f)
	}
	if !p.Subnet.Contains(p.Range.From) || !p.Subnet.Contains(p.Range.To) {
		return fmt.Sprintf("the range %s is not inside the subnet %s; make the range smaller or the subnet larger",
			p.Range, p.Subnet)
	}
	if special, ok := p.Range.Special(); ok {
		return fmt.Sprintf("the range %s takes in %s of %s, which no Service can have; leave them out",
			p.Range, special.What, special.Prefix)
	}
	return ""
}

// mask reads an aggregation: the mask of the addresses of p on the dummy interface. The kernel adds
// a route for all addresses that the mask covers. So mask refuses a very short mask, which would
// redirect most of a node's traffic to that interface.
func (p Pool) mask(aggregation string) (bits int, reason string) {
	const least = 8
	most := p.Family().Bits()
	if aggregation == "" || aggregation == "default" {
		if bits = p.Subnet.Bits(); bits < least {
			return 0, fmt.Sprintf("this is the mask of the subnet, /%d, which is too short; write one from /%d to /%d",
				bits, least, most)
		}
		return bits, ""
	}
	digits, slash := strings.CutPrefix(aggregation, "/")
	bits, err := strconv.Atoi(digits)
	switch {
	case !slash || err != nil || strconv.Itoa(bits) != digits:
		return 0, `this is not a mask; write one with its slash, such as "/32", or "default" for that of the subnet`
	case bits < least || bits > most:
		return 0, fmt.Sprintf("a mask of %s must be from /%d to /%d here", p.Family(), least, most)
	}
	return bits, ""
}

// Saturate returns n as an int64, or the nearest int64.
func Saturate(n *big.Int) int64 {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.Sign() < 0:
		return math.MinInt64
	default:
		return math.MaxInt64
	}
}
