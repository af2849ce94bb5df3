package linux

import (
	"context"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// keepsAttribute finds out whether the kernel knows this attribute of
// addresses, which must be one that is not empty.
//
// It asks for the impossible: an address on the link with index 0, which no
// link has, with the attribute empty. A kernel that knows the attribute finds
// fault with it (ERANGE); one that does not skips it, and misses the link
// (ENODEV). Nothing is changed either way, and unlike the number of the release
// the answer is right for the kernels of distributions, which are older by
// number than by content.
func keepsAttribute(c *rtnetlink.Conn, attribute uint16) (bool, error) {
	req := addressRequest(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL,
		netip.MustParsePrefix("192.0.2.1/32"), 0)
	req.Add(attribute, nil)
	switch err := c.Do(context.Background(), req); {
	case errors.Is(err, unix.ERANGE):
		return true, nil
	case errors.Is(err, unix.ENODEV):
		return false, nil
	case err == nil:
		return false, errors.New("address accepted on a link that does not exist")
	default:
		return false, err
	}
}
