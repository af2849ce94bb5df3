package pool

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"purelb.io/purelb/internal/addr"
)

// ParseError says which part of a pool's description is wrong.
type ParseError struct {
	// Field is "pool", "subnet", "aggregation", or one such as "exclude[0]".
	Field string
	// Reason says what is wrong with it and how to mend it.
	Reason string
}

func (e *ParseError) Error() string { return e.Field + " " + e.Reason }

// Parse reads a pool as the user wrote it: its range, the subnet that the range
// lies in, the mask of its addresses on the dummy interface ("/n", or "" or
// "default" for that of the subnet), and what of the range is not to be handed
// out (see addr.ParseBlock). Errors are of type *ParseError.
func Parse(poolText, subnetText, aggregation string, exclude ...string) (Pool, error) {
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

// excluded reads addresses to be left out of p. What lies outside p anyway is a
// mistake: the user means other addresses, or another pool.
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

// misplaced says why the range of p cannot be where it is, or nothing.
func (p Pool) misplaced() string {
	if f := addr.FamilyOf(p.Subnet.Addr()); f != p.Family() {
		return fmt.Sprintf("the range is %s and the subnet %s is %s; both must be of one family", p.Family(), p.Subnet, f)
	}
	if !p.Subnet.Contains(p.Range.From) || !p.Subnet.Contains(p.Range.To) {
		return fmt.Sprintf("the range %s is not inside the subnet %s; make the range smaller or the subnet larger",
			p.Range, p.Subnet)
	}
	for _, u := range unassignable {
		if p.Range.Overlaps(addr.Range{From: u.prefix.Addr(), To: addr.Last(u.prefix)}) {
			return fmt.Sprintf("the range %s takes in %s of %s, which no Service can have; leave them out",
				p.Range, u.what, u.prefix)
		}
	}
	return ""
}

// unassignable are the addresses that can be no host's, or not be told from
// those of the other family.
var unassignable = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), `addresses of "this network"`},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback addresses"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast addresses"},
	{netip.MustParsePrefix("::/80"), "unspecified, loopback and IPv4-mapped addresses"},
	{netip.MustParsePrefix("fe80::/10"), "link-local addresses"},
	{netip.MustParsePrefix("ff00::/8"), "multicast addresses"},
}

// mask reads an aggregation. The addresses of p get it as their mask on the
// dummy interface, and the kernel adds a route for all that the mask covers: so
// a very short one is refused, before it draws everything that a node sends.
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
