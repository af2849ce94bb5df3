package linux

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// ctaFilter and its CTA_FILTER_ORIG_FLAGS, in which
	// CTA_FILTER_F_CTA_PROTO_NUM compares the protocol, are of
	// linux/netfilter/nfnetlink_conntrack.h, as all that is not in unix or nl.
	ctaFilter         = 25
	ctaFilterOriginal = 1
	filterProtocol    = 1 << 3
)

// openFlows opens the kernel's table of connections; nil if it has none.
func openFlows() (*conn, error) {
	sock, err := openSocket(unix.NETLINK_NETFILTER)
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return newConn(sock), nil
}

// ForgetFlows has the kernel forget the UDP flows to addrs, and returns how many
// there were. It is nothing where the kernel keeps no track of flows.
//
// The kernel sends the packets of a flow to where it sent the first one. That
// ends with the connection in TCP, but never in UDP while the client goes on
// sending: also not when the first packet came at a time when there was nobody
// to send it to.
func (s *Stack) ForgetFlows(ctx context.Context, addrs []netip.Addr) (int, error) {
	if s.flows == nil {
		return 0, nil
	}
	wanted := make(map[netip.Addr]bool, len(addrs))
	families := make(map[int]bool)
	for _, a := range addrs {
		wanted[a] = true
		families[familyOf(a)] = true
	}
	var old []*nl.NetlinkRequest
	for family := range families {
		some, err := s.flowsTo(ctx, family, wanted)
		if err != nil {
			return 0, fmt.Errorf("read flows: %w", err)
		}
		old = append(old, some...)
	}
	return forgotten(s.flows.batch(ctx, old))
}

// forgotten counts what is gone by the results of asking for that. What was gone
// before counts for nothing.
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

// flowsTo returns the requests that end the UDP flows to any of addrs.
//
// The kernel is asked for the flows of UDP, as there can be a million of others.
// Kernels before 5.8 return all of them nevertheless, and one that refuses the
// question with and without that condition does not track connections.
func (s *Stack) flowsTo(ctx context.Context, family int, addrs map[netip.Addr]bool) ([]*nl.NetlinkRequest, error) {
	for _, req := range []*nl.NetlinkRequest{flowsOfUDP(family), flowRequest(nl.IPCTNL_MSG_CT_GET, family)} {
		old, err := dump(ctx, s.flows, req, func(body []byte) (*nl.NetlinkRequest, bool, error) {
			if len(body) < nl.SizeofNfgenmsg {
				return nil, false, fmt.Errorf("flow message of %d bytes: %w", len(body), unix.EBADMSG)
			}
			flow := body[nl.SizeofNfgenmsg:]
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

func flowsOfUDP(family int) *nl.NetlinkRequest {
	req := flowRequest(nl.IPCTNL_MSG_CT_GET, family)
	tuple := nl.NewRtAttr(nl.CTA_TUPLE_ORIG|unix.NLA_F_NESTED, nil)
	tuple.AddRtAttr(nl.CTA_TUPLE_PROTO|unix.NLA_F_NESTED, nil).
		AddRtAttr(nl.CTA_PROTO_NUM, nl.Uint8Attr(unix.IPPROTO_UDP))
	req.AddData(tuple)
	only := nl.NewRtAttr(ctaFilter|unix.NLA_F_NESTED, nil)
	only.AddRtAttr(ctaFilterOriginal, nl.Uint32Attr(filterProtocol))
	req.AddData(only)
	return req
}

// flowTo returns the protocol of a flow and where its first packet went, before
// any translation.
func flowTo(flow []byte) (protocol byte, to netip.Addr) {
	tuple := nested(flow, nl.CTA_TUPLE_ORIG)
	if number := nested(nested(tuple, nl.CTA_TUPLE_PROTO), nl.CTA_PROTO_NUM); len(number) == 1 {
		protocol = number[0]
	}
	for kind, value := range attributes(nested(tuple, nl.CTA_TUPLE_IP)) {
		if kind == nl.CTA_IP_V4_DST || kind == nl.CTA_IP_V6_DST {
			to, _ = netip.AddrFromSlice(value)
		}
	}
	return protocol, to
}

// oldFlow asks the kernel to forget a flow, and not another that looks the same
// by then.
func oldFlow(flow []byte, family int) *nl.NetlinkRequest {
	req := flowRequest(nl.IPCTNL_MSG_CT_DELETE, family)
	for kind, value := range attributes(flow) {
		switch kind {
		case nl.CTA_TUPLE_ORIG:
			req.AddData(nl.NewRtAttr(nl.CTA_TUPLE_ORIG|unix.NLA_F_NESTED, slices.Clone(value)))
		case nl.CTA_ID, nl.CTA_ZONE:
			req.AddData(nl.NewRtAttr(int(kind), slices.Clone(value)))
		}
	}
	return req
}

func flowRequest(kind, family int) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|kind, 0)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: uint8(family), Version: unix.NFNETLINK_V0})
	return req
}
