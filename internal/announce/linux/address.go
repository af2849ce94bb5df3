package linux

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/rtnetlink"
)

const (
	// ifaProto is IFA_PROTO of linux/if_addr.h. It carries the mark of our addresses.
	ifaProto = 11
	// eternal is INFINITY_LIFE_TIME of net/addrconf.h.
	eternal = math.MaxUint32
)

// held is an address as the kernel reports it.
type held struct {
	announce.Address
	index int
}

// addresses returns the addresses of both families.
func (s *Stack) addresses(ctx context.Context) ([]held, error) {
	v4, err := s.dumpAddresses(ctx, unix.AF_INET)
	if err != nil {
		return nil, err
	}
	v6, err := s.dumpAddresses(ctx, unix.AF_INET6)
	if err != nil {
		return nil, err
	}
	return append(v4, v6...), nil
}

func (s *Stack) dumpAddresses(ctx context.Context, family uint8) ([]held, error) {
	req := rtnetlink.NewRequest(unix.RTM_GETADDR, 0, addressBody(family, 0, 0))
	return rtnetlink.Dump(ctx, s.route, dumpTries, req, func(body []byte) (held, bool, error) {
		if len(body) > 0 && body[0] != family {
			// A kernel without IPv6 answers for all families instead.
			return held{}, false, nil
		}
		h, err := parseAddress(body)
		return h, err == nil, err
	})
}

// parseAddress parses the body of an RTM_NEWADDR.
func parseAddress(body []byte) (held, error) {
	if len(body) < unix.SizeofIfAddrmsg {
		return held{}, fmt.Errorf("address message of %d bytes: %w", len(body), unix.EBADMSG)
	}
	h := held{index: int(native.Uint32(body[4:]))}
	var local, address netip.Addr
	flags := uint32(body[2])
	for kind, value := range rtnetlink.Attributes(body[unix.SizeofIfAddrmsg:]) {
		switch kind {
		case unix.IFA_LOCAL:
			local = rtnetlink.Address(value)
		case unix.IFA_ADDRESS:
			address = rtnetlink.Address(value)
		case unix.IFA_FLAGS:
			flags = rtnetlink.Number(value)
		case unix.IFA_CACHEINFO:
			h.Preferred, h.Valid = lifetimes(value)
		case ifaProto:
			if len(value) == 1 {
				h.Mark = value[0]
			}
		}
	}
	if !local.IsValid() {
		local = address // with a peer, IFA_ADDRESS is the address of the peer
	}
	h.Prefix = netip.PrefixFrom(local, int(body[1]))
	if !h.Prefix.IsValid() {
		return held{}, fmt.Errorf("address message without a valid address: %w", unix.EBADMSG)
	}
	h.LinkScope = body[0] == unix.AF_INET && body[3] == unix.RT_SCOPE_LINK
	h.NoPrefixRoute = flags&unix.IFA_F_NOPREFIXROUTE != 0
	h.NoDAD = flags&unix.IFA_F_NODAD != 0
	h.Tentative = flags&unix.IFA_F_TENTATIVE != 0
	h.Failed = flags&unix.IFA_F_DADFAILED != 0
	h.Secondary = flags&unix.IFA_F_SECONDARY != 0
	return h, nil
}

// lifetimes decodes a struct ifa_cacheinfo.
func lifetimes(value []byte) (preferred, valid time.Duration) {
	if len(value) < unix.SizeofIfaCacheinfo {
		return 0, 0
	}
	return lifetime(native.Uint32(value)), lifetime(native.Uint32(value[4:]))
}

func lifetime(seconds uint32) time.Duration {
	if seconds == eternal {
		return announce.Forever
	}
	return time.Duration(seconds) * time.Second
}

// seconds is the inverse of lifetime, rounded up.
func seconds(d time.Duration) uint32 {
	if d == announce.Forever {
		return eternal
	}
	return uint32(min((d+time.Second-1)/time.Second, eternal-1))
}

// newAddress returns a request to add a to the link with this index.
func newAddress(a announce.Address, index int, flags uint16) *rtnetlink.Request {
	body := addressBody(rtnetlink.Family(a.Prefix.Addr()), a.Prefix.Bits(), index)
	if a.LinkScope {
		body[3] = unix.RT_SCOPE_LINK
	}
	req := addressRequest(unix.RTM_NEWADDR, flags, a.Prefix, body)
	if a.Prefix.Addr().Is4() && a.Prefix.Bits() <= 30 { // a smaller network has no broadcast address
		req.Add(unix.IFA_BROADCAST, addr.Last(a.Prefix).AsSlice())
	}
	req.AddNumber(unix.IFA_FLAGS, addressFlags(a))
	req.Add(unix.IFA_CACHEINFO, cacheInfo(a))
	req.Add(ifaProto, []byte{announce.Mark})
	return req
}

// oldAddress returns a request to remove p from the link with this index.
func oldAddress(p netip.Prefix, index int) *rtnetlink.Request {
	return addressRequest(unix.RTM_DELADDR, 0, p, addressBody(rtnetlink.Family(p.Addr()), p.Bits(), index))
}

func addressRequest(kind, flags uint16, p netip.Prefix, body []byte) *rtnetlink.Request {
	ip := p.Addr().AsSlice()
	req := rtnetlink.NewRequest(kind, flags, body)
	req.Add(unix.IFA_LOCAL, ip)
	req.Add(unix.IFA_ADDRESS, ip)
	return req
}

// addressBody encodes a struct ifaddrmsg.
func addressBody(family uint8, bits, index int) []byte {
	b := make([]byte, unix.SizeofIfAddrmsg)
	b[0], b[1] = family, uint8(bits)
	native.PutUint32(b[4:], uint32(index))
	return b
}

func addressFlags(a announce.Address) (flags uint32) {
	if a.NoPrefixRoute {
		flags |= unix.IFA_F_NOPREFIXROUTE
	}
	if a.NoDAD && a.Prefix.Addr().Is6() {
		flags |= unix.IFA_F_NODAD
	}
	return flags
}

// cacheInfo encodes a struct ifa_cacheinfo.
func cacheInfo(a announce.Address) []byte {
	b := make([]byte, unix.SizeofIfaCacheinfo)
	native.PutUint32(b, seconds(a.Preferred))
	native.PutUint32(b[4:], seconds(a.Valid))
	return b
}

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
