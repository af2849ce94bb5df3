package linux

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// Constants of linux/netfilter/nfnetlink_conntrack.h.
const (
	// The requests: IPCTNL_MSG_CT_*.
	flowGet, flowDelete = 1, 2
	// The attributes of a flow: CTA_*. ctaTuple is CTA_TUPLE_ORIG, the tuple of the first packet.
	ctaTuple, ctaID, ctaZone, ctaFilter = 1, 12, 18, 25
	// The attributes of a tuple: CTA_TUPLE_*, CTA_IP_*_DST, CTA_PROTO_NUM.
	ctaTupleIP, ctaTupleProtocol = 1, 2
	ctaIPv4To, ctaIPv6To         = 2, 4
	ctaProtocolNumber            = 1
	// CTA_FILTER_ORIG_FLAGS of the filter. Its flag CTA_FILTER_F_CTA_PROTO_NUM compares the
	// protocol.
	ctaFilterOriginal, filterProtocol = 1, 1 << 3
	// sizeofFlow is the size of struct nfgenmsg, the header of each message.
	sizeofFlow = 4
)

// openFlows opens the connection tracking table of the kernel. It returns nil if the kernel
// has none.
func openFlows() (*rtnetlink.Conn, error) {
	sock, err := rtnetlink.Open(unix.NETLINK_NETFILTER)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return rtnetlink.NewConn(sock), nil
}

// ForgetFlows makes the kernel forget the UDP flows to addrs, and returns their number. It
// does nothing if the kernel does not track connections.
//
// The kernel sends all packets of a flow to the destination of the first packet. A TCP flow
// ends with the connection. A UDP flow lasts as long as the client sends, even if the first
// packet arrived when there was no destination.
func (s *Stack) ForgetFlows(ctx context.Context, addrs []netip.Addr) (int, error) {
	if s.flows == nil {
		return 0, nil
	}
	wanted := make(map[netip.Addr]bool, len(addrs))
	families := make(map[uint8]bool)
	for _, a := range addrs {
		wanted[a] = true
		families[rtnetlink.Family(a)] = true
	}
	var old []*rtnetlink.Request
	for family := range families {
		some, err := s.flowsTo(ctx, family, wanted)
		if err != nil {
			return 0, fmt.Errorf("read flows: %w", err)
		}
		old = append(old, some...)
	}
	return forgotten(s.flows.Batch(ctx, old))
}

// forgotten counts the deleted flows from the results of the requests. It does not count
// flows that were gone before.
func forgotten(results []error) (count int, err error) {
	results = slices.DeleteFunc(results, func(err error) bool { return errors.Is(err, unix.ENOENT) })
	for _, err := range results {
		if err == nil {
			count++
		}
	}
	if err := errors.Join(results...); err != nil {
		return count, fmt.Errorf("forget flows: %w", err)
	}
	return count, nil
}

// flowsTo returns the requests that delete the UDP flows to addrs.
//
// It asks the kernel only for UDP flows, because there can be a million others. Kernels
// before 5.8 return all flows nevertheless. A kernel that refuses both this request and the
// one for all flows does not track connections.
func (s *Stack) flowsTo(ctx context.Context, family uint8, addrs map[netip.Addr]bool) ([]*rtnetlink.Request, error) {
	for _, req := range []*rtnetlink.Request{flowsOfUDP(family), flowRequest(flowGet, family)} {
		old, err := rtnetlink.Dump(ctx, s.flows, dumpTries, req, func(body []byte) (*rtnetlink.Request, bool, error) {
			if len(body) < sizeofFlow {
				return nil, false, fmt.Errorf("flow message of %d bytes: %w", len(body), unix.EBADMSG)
			}
			flow := body[sizeofFlow:]
			if protocol, to := flowTo(flow); protocol != unix.IPPROTO_UDP || !addrs[to] {
				return nil, false, nil
			}
			return oldFlow(flow, family), true, nil
		})
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EOPNOTSUPP) {
			return old, err
		}
	}
	return nil, nil
}

func flowsOfUDP(family uint8) *rtnetlink.Request {
	req := flowRequest(flowGet, family)
	protocol := rtnetlink.AppendAttribute(nil, ctaProtocolNumber, []byte{unix.IPPROTO_UDP})
	req.Add(ctaTuple|unix.NLA_F_NESTED, rtnetlink.AppendAttribute(nil, ctaTupleProtocol|unix.NLA_F_NESTED, protocol))
	req.Add(ctaFilter|unix.NLA_F_NESTED, rtnetlink.AppendNumber(nil, ctaFilterOriginal, filterProtocol))
	return req
}

// flowTo returns the protocol of a flow, and the destination of its first packet before any
// translation.
func flowTo(flow []byte) (protocol byte, to netip.Addr) {
	tuple := rtnetlink.Attribute(flow, ctaTuple)
	if number := rtnetlink.Attribute(rtnetlink.Attribute(tuple, ctaTupleProtocol), ctaProtocolNumber); len(number) == 1 {
		protocol = number[0]
	}
	for kind, value := range rtnetlink.Attributes(rtnetlink.Attribute(tuple, ctaTupleIP)) {
		if kind == ctaIPv4To || kind == ctaIPv6To {
			to = rtnetlink.Address(value)
		}
	}
	return protocol, to
}

// oldFlow returns a request to delete a flow. The ID keeps it from deleting a newer flow
// with the same tuple.
func oldFlow(flow []byte, family uint8) *rtnetlink.Request {
	req := flowRequest(flowDelete, family)
	for kind, value := range rtnetlink.Attributes(flow) {
		switch kind {
		case ctaTuple:
			req.Add(ctaTuple|unix.NLA_F_NESTED, value)
		case ctaID, ctaZone:
			req.Add(kind, value)
		}
	}
	return req
}

func flowRequest(kind uint16, family uint8) *rtnetlink.Request {
	body := []byte{family, unix.NFNETLINK_V0, 0, 0} // struct nfgenmsg
	return rtnetlink.NewRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|kind, 0, body)
}
