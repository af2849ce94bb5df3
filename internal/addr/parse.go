package addr

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// ParseRange reads a range of addresses, written in one of two forms:
//
//   - a CIDR such as "192.0.2.0/24". Its first address is the one written, so
//     that "192.0.2.100/24" is 192.0.2.100 to 192.0.2.255;
//   - the first and the last address, "192.0.2.10-192.0.2.20", with or without
//     spaces. Then explicit is true: the user named each of these addresses.
//
// Errors tell the user what is wrong with s and how to correct it.
func ParseRange(s string) (r Range, explicit bool, err error) {
	first, last, explicit := strings.Cut(s, "-")
	if explicit {
		r, err = between(first, last)
	} else {
		r, err = covered(s)
	}
	if err != nil {
		return Range{}, false, fmt.Errorf("%s: %w", Quote(s), err)
	}
	return r, explicit, nil
}

// ParseCIDR reads an address with the length of its mask, such as
// "192.0.2.7/24", and keeps the address as written. Its errors are like those
// of ParseRange.
func ParseCIDR(s string) (netip.Prefix, error) {
	p, err := parseCIDR(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%s: %w", Quote(s), err)
	}
	return p, nil
}

// Quote returns s in quotes. It cuts off what exceeds a limit.
func Quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

var (
	errEmpty = errors.New("nothing is written here; write a CIDR such as 192.0.2.0/24," +
		" or a first and a last address such as 192.0.2.10-192.0.2.20")
	errEmptyCIDR = errors.New("nothing is written here; write a CIDR such as 192.0.2.0/24")
	errOneSided  = errors.New(`an address is missing; write one on each side of the "-"`)
	errSeveral   = errors.New("there is more than one range here; give each an entry of its own")
	errHyphens   = errors.New(`there is more than one "-" here; write the first address, "-" and the last`)
)

// between returns the range between two addresses, both given as text.
func between(firstText, lastText string) (Range, error) {
	if err := checkEnds(firstText, lastText); err != nil {
		return Range{}, err
	}
	first, err := parseAddr(strings.TrimSpace(firstText))
	if err != nil {
		return Range{}, err
	}
	last, err := parseAddr(strings.TrimSpace(lastText))
	if err != nil {
		return Range{}, err
	}
	if f, l := FamilyOf(first), FamilyOf(last); f != l {
		return Range{}, fmt.Errorf("%s is %s and %s is %s; both ends must be of one family", first, f, last, l)
	}
	if last.Less(first) {
		return Range{}, fmt.Errorf("the range is reversed; write %s", Range{From: last, To: first})
	}
	return Range{From: first, To: last}, nil
}

// checkEnds finds mistakes around the two addresses of a range.
func checkEnds(first, last string) error {
	switch {
	case strings.TrimSpace(first) == "" || strings.TrimSpace(last) == "":
		return errOneSided
	case strings.ContainsAny(first+last, ",;\n"):
		return errSeveral
	case strings.Contains(last, "-"):
		return errHyphens
	}
	return nil
}

// covered returns the range from the address of a CIDR to the last address that its
// mask covers.
func covered(s string) (Range, error) {
	switch {
	case strings.TrimSpace(s) == "":
		return Range{}, errEmpty
	case strings.ContainsAny(s, ",;"):
		return Range{}, errSeveral
	}
	p, err := parseCIDR(s)
	if err != nil {
		return Range{}, err
	}
	return Range{From: p.Addr(), To: Last(p)}, nil
}

func parseCIDR(s string) (netip.Prefix, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return netip.Prefix{}, errEmptyCIDR
	}
	addrText, mask, ok := strings.Cut(s, "/")
	a, err := parseAddr(addrText)
	switch {
	case err != nil:
		return netip.Prefix{}, err
	case !ok:
		return netip.Prefix{}, fmt.Errorf("the mask is missing; for this one address write %s/%d", a, a.BitLen())
	}
	bits, err := parseMask(mask, a.BitLen())
	if err != nil {
		return netip.Prefix{}, err
	}
	return netip.PrefixFrom(a, bits), nil
}

// parseMask reads the length of a mask, without the slash: "24" or "0", and no
// other notation.
func parseMask(s string, most int) (int, error) {
	bits, err := strconv.ParseUint(s, 10, 8)
	switch canonical := strconv.FormatUint(bits, 10); {
	case err != nil || bits > uint64(most):
		return 0, fmt.Errorf("%s is not the length of a mask; write a number from /0 to /%d", Quote("/"+s), most)
	case s != canonical:
		return 0, fmt.Errorf("the mask %s is not written plainly; write /%s", Quote("/"+s), canonical)
	}
	return int(bits), nil
}

// parseAddr reads an address in the form that Range requires.
func parseAddr(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		return netip.Addr{}, explain(s, err)
	case a.Is4In6():
		return netip.Addr{}, fmt.Errorf("%s is an IPv4 address in IPv6 form; write %s", a.WithZone(""), a.Unmap())
	case a.Zone() != "":
		return netip.Addr{}, fmt.Errorf("%s has the zone %s, and pools have none; write %s",
			a.WithZone(""), Quote(a.Zone()), a.WithZone(""))
	}
	return a, nil
}

// explain says why s is not an address. It looks for common mistakes first; cause
// is the error of netip.
func explain(s string, cause error) error {
	switch {
	case strings.Contains(s, "/"):
		return fmt.Errorf("%s has a mask; write a range with plain addresses, or a CIDR without a range", Quote(s))
	case isNumber(s):
		return fmt.Errorf("%s is only a part of an address; write it in full", Quote(s))
	case strings.ContainsAny(s, "‐‑‒–—−"):
		return fmt.Errorf(`%s has a dash that is not the plain hyphen "-"; write a plain one`, Quote(s))
	}
	if a, ok := withoutLeadingZeros(s); ok {
		return fmt.Errorf("%s has leading zeros, which some programs read as octal; write %s", Quote(s), a)
	}
	why := strings.TrimPrefix(cause.Error(), "ParseAddr("+strconv.Quote(s)+"): ")
	why, _, _ = strings.Cut(why, " (at ")
	return fmt.Errorf("%s is not an IP address: %s", Quote(s), why)
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// withoutLeadingZeros returns s as an IPv4 address after removing leading zeros.
func withoutLeadingZeros(s string) (netip.Addr, bool) {
	fields := strings.Split(s, ".")
	for i, f := range fields {
		n, err := strconv.ParseUint(f, 10, 8)
		if err != nil {
			return netip.Addr{}, false
		}
		fields[i] = strconv.FormatUint(n, 10)
	}
	a, err := netip.ParseAddr(strings.Join(fields, "."))
	return a, err == nil
}
