package linux

import (
	"context"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// keepsAttribute reports whether the kernel knows this attribute of addresses. The
// attribute must be one that cannot be empty.
//
// It sends a request that cannot succeed: to add an address to link 0, which does not
// exist, with the attribute empty. A kernel that knows the attribute refuses it (ERANGE).
// Another kernel ignores the attribute, and does not find the link (ENODEV). Neither
// changes anything. This also works for the kernels of distributions, which have more
// features than their version number suggests.
func keepsAttribute(c *rtnetlink.Conn, attribute uint16) (bool, error) {
	const noLink = 0
	req := addressRequest(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL,
		netip.MustParsePrefix("192.0.2.1/32"), addressBody(unix.AF_INET, 32, noLink))
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
