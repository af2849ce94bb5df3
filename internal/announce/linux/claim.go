package linux

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// Claim announces to all hosts on the segment of a link that addr is here. For IPv4 it
// sends one round of gratuitous ARP: a request and a reply, because some neighbors heed
// only one of them. For IPv6 it sends one unsolicited Neighbor Advertisement. On links
// without neighbors it does nothing.
func (s *Stack) Claim(ctx context.Context, link string, addr netip.Addr) error {
	l, err := s.link(ctx, link)
	if err == nil && l.hasNeighbors() {
		err = s.claim(ctx, l, addr)
	}
	if err != nil {
		return fmt.Errorf("claim %s on %s: %w", addr, link, err)
	}
	return nil
}

// hasNeighbors reports whether a link is an Ethernet link with ARP.
func (l link) hasNeighbors() bool {
	return l.hardware == unix.ARPHRD_ETHER && l.MAC != [6]byte{} &&
		l.flags&(unix.IFF_NOARP|unix.IFF_LOOPBACK) == 0
}

func (s *Stack) claim(ctx context.Context, l link, addr netip.Addr) error {
	if addr.Is4() {
		return errors.Join(
			s.send(ctx, l, unix.ETH_P_ARP, broadcastMAC, gratuitousARP(arpRequest, l.MAC, addr)),
			s.send(ctx, l, unix.ETH_P_ARP, broadcastMAC, gratuitousARP(arpReply, l.MAC, addr)))
	}
	source, err := s.sourceFor(ctx, l, addr)
	if err != nil {
		return err
	}
	var flags byte = override
	if l.forwards {
		flags |= router
	}
	return s.send(ctx, l, unix.ETH_P_IPV6, groupMAC(allNodes), unsolicitedNA(l.MAC, source, addr, flags))
}

var broadcastMAC = [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// transmit sends a packet through a link, without routing and firewall.
func (s *Stack) transmit(l link, protocol uint16, to [8]byte, packet []byte) error {
	return os.NewSyscallError("sendto", unix.Sendto(s.wire, packet, 0, &unix.SockaddrLinklayer{
		Protocol: networkOrder(protocol),
		Ifindex:  l.Index,
		Halen:    6,
		Addr:     to,
	}))
}

func networkOrder(v uint16) uint16 {
	return native.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

// sourceFor returns the source address for an advertisement of addr: addr itself, which the
// kernel uses too, or the link-local address while addr is not usable.
func (s *Stack) sourceFor(ctx context.Context, l link, addr netip.Addr) (netip.Addr, error) {
	req := rtnetlink.NewRequest(unix.RTM_GETADDR, 0, addressBody(unix.AF_INET6, 0, l.Index))
	req.Add(unix.IFA_ADDRESS, addr.AsSlice())
	body, err := s.route.Ask(ctx, req)
	if err == nil {
		if h, err := parseAddress(body); err == nil && h.usable() {
			return addr, nil
		}
	} else if !errors.Is(err, unix.EADDRNOTAVAIL) {
		return netip.Addr{}, err
	}
	return s.linkLocal(ctx, l)
}

func (s *Stack) linkLocal(ctx context.Context, l link) (netip.Addr, error) {
	all, err := s.dumpAddresses(ctx, unix.AF_INET6)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, h := range all {
		if h.index == l.Index && h.Prefix.Addr().IsLinkLocalUnicast() && h.usable() {
			return h.Prefix.Addr(), nil
		}
	}
	return netip.Addr{}, errors.New("no usable source address on the link")
}

// usable reports whether duplicate address detection has finished and found no duplicate.
func (h held) usable() bool { return !h.Tentative && !h.Failed }
