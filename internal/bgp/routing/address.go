package routing

import (
	"context"
	"fmt"
	"math"
	"net/netip"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/rtnetlink"
)

const (
	// ifaProto is IFA_PROTO of linux/if_addr.h.
	ifaProto = 11
	// eternal is INFINITY_LIFE_TIME of net/addrconf.h.
	eternal = math.MaxUint32
)

// holding is an address on a link.
type holding struct {
	link   int
	prefix netip.Prefix
	flags  uint32
	// service means that it is the address of a service.
	service bool
	// lasting means that its lifetime is infinite.
	lasting bool
}

// usable reports whether the kernel answers for the address. It does not while duplicate
// address detection runs, or after that has failed (RFC 4862).
func (h holding) usable() bool {
	const unsure = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED
	return h.flags&unsure == 0
}

// global reports whether the address is valid beyond this node and its links.
func (h holding) global() bool {
	a := h.prefix.Addr()
	return a.IsGlobalUnicast() && !a.Is4In6()
}

// addresses returns the addresses of a link, or of all links if link is 0.
func (k *Kernel) addresses(ctx context.Context, tries, link int) ([]holding, error) {
	var all []holding
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		body := make([]byte, unix.SizeofIfAddrmsg)
		body[0] = family
		native.PutUint32(body[4:], uint32(link))
		some, err := rtnetlink.Dump(ctx, k.route, tries, rtnetlink.NewRequest(unix.RTM_GETADDR, 0, body), func(body []byte) (holding, bool, error) {
			// Kernels without strict checks answer for all links. Kernels without IPv6
			// answer for all families.
			h, err := parseHolding(body)
			return h, err == nil && body[0] == family && (link == 0 || h.link == link), err
		})
		if err != nil {
			return nil, fmt.Errorf("read addresses: %w", err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// parseHolding parses the body of an RTM_NEWADDR or RTM_DELADDR.
func parseHolding(body []byte) (holding, error) {
	if len(body) < unix.SizeofIfAddrmsg {
		return holding{}, fmt.Errorf("address message of %d bytes: %w", len(body), unix.EBADMSG)
	}
	h := holding{link: int(native.Uint32(body[4:])), flags: uint32(body[2]), lasting: true}
	var local, other netip.Addr
	for kind, value := range rtnetlink.Attributes(body[unix.SizeofIfAddrmsg:]) {
		switch kind {
		case unix.IFA_LOCAL:
			local = rtnetlink.Address(value)
		case unix.IFA_ADDRESS:
			other = rtnetlink.Address(value)
		case unix.IFA_FLAGS:
			h.flags = rtnetlink.Number(value)
		case unix.IFA_CACHEINFO:
			h.lasting = len(value) >= 8 && native.Uint32(value[4:]) == eternal
		case ifaProto:
			h.service = len(value) == 1 && value[0] == addr.Mark
		}
	}
	if !local.IsValid() {
		local = other // the address of the peer, if there is a peer
	}
	h.prefix = netip.PrefixFrom(local, int(body[1]))
	if !h.prefix.IsValid() {
		return holding{}, fmt.Errorf("address message without a valid address: %w", unix.EBADMSG)
	}
	return h, nil
}
