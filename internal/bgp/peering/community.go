package peering

import (
	"fmt"
	"strconv"
	"strings"
)

// wellKnown maps the names of well-known communities to their values (IANA, RFC 1997 and
// later). GoBGP calls the first one planned-shut.
var wellKnown = map[string]uint32{
	"graceful-shutdown":          GracefulShutdown,
	"planned-shut":               GracefulShutdown,
	"accept-own":                 0xFFFF0001,
	"route-filter-translated-v4": 0xFFFF0002,
	"route-filter-v4":            0xFFFF0003,
	"route-filter-translated-v6": 0xFFFF0004,
	"route-filter-v6":            0xFFFF0005,
	"llgr-stale":                 0xFFFF0006,
	"no-llgr":                    0xFFFF0007,
	"blackhole":                  0xFFFF029A,
	"no-export":                  0xFFFFFF01,
	"no-advertise":               0xFFFFFF02,
	"no-export-subconfed":        0xFFFFFF03,
	"no-peer":                    0xFFFFFF04,
	"internet":                   0,
}

// parseCommunity reads a community such as 64512:100, or its well-known name.
func parseCommunity(text string) (uint32, error) {
	text = strings.TrimSpace(text)
	if c, ok := wellKnown[strings.ReplaceAll(strings.ToLower(text), "_", "-")]; ok {
		return c, nil
	}
	high, low, ok := strings.Cut(text, ":")
	h, okHigh := number(high, 16)
	l, okLow := number(low, 16)
	if !ok || !okHigh || !okLow {
		return 0, fmt.Errorf("%s is not a community: write two numbers from 0 to 65535, such as 64512:100, or a well-known name such as no-export", quote(text))
	}
	return uint32(h)<<16 | uint32(l), nil
}

// communityText returns the usual text of a community.
func communityText(c uint32) string { return fmt.Sprintf("%d:%d", c>>16, c&0xFFFF) }

// parseLarge reads a large community and returns its usual text.
func parseLarge(text string) (string, error) {
	text = strings.TrimSpace(text)
	parts := strings.Split(text, ":")
	var plain []string
	for _, p := range parts {
		if n, ok := number(p, 32); ok {
			plain = append(plain, strconv.FormatUint(n, 10))
		}
	}
	if len(parts) != 3 || len(plain) != 3 {
		return "", fmt.Errorf("%s is not a large community: write three numbers from 0 to 4294967295, such as 64512:100:1", quote(text))
	}
	if plain[0] == "0" || plain[0] == "4294967295" {
		return "", fmt.Errorf("%s is a large community of a reserved AS number: use the number of your AS", quote(text))
	}
	return strings.Join(plain, ":"), nil
}

// number reads a number of digits only.
func number(s string, bits int) (uint64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, bits)
	return n, err == nil
}
