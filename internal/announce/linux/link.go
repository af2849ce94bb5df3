package linux

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/rtnetlink"
)

const (
	// skipStats is RTEXT_FILTER_SKIP_STATS. Counters are most of a link's message, and this
	// package does not read them.
	skipStats = 1 << 3
	// The numbers of IPV4_DEVCONF_ARP_ANNOUNCE, ARP_IGNORE and PROMOTE_SECONDARIES.
	arpAnnounce, arpIgnore, promoteSecondaries = 18, 19, 20
	// forwardingIPv6 is DEVCONF_FORWARDING.
	forwardingIPv6 = 0
	// operTesting and operDormant are the states of RFC 2863 in which a link has a carrier
	// but carries no traffic: during a test, or before a login (802.1X), when the switch
	// passes no packets.
	operTesting, operDormant = 4, 5
)

// link is a link as the kernel reports it.
type link struct {
	announce.Link
	flags    uint32
	hardware uint16 // ARPHRD_*
	// promotes means that secondary addresses stay when the primary is removed.
	promotes bool
	// arp are the ARP settings of the link.
	arp arpSettings
	// forwards means that the node is an IPv6 router on the link.
	forwards bool
}

func (s *Stack) links(ctx context.Context) ([]link, error) {
	return rtnetlink.Dump(ctx, s.route, dumpTries, linkQuestion(), func(body []byte) (link, bool, error) {
		l, err := parseLink(body)
		return l, err == nil, err
	})
}

// link returns the link with this name, or ENODEV if there is none.
func (s *Stack) link(ctx context.Context, name string) (link, error) {
	if len(name) >= unix.IFNAMSIZ {
		return link{}, fmt.Errorf("name longer than %d bytes: %w", unix.IFNAMSIZ-1, unix.ENODEV)
	}
	req := linkQuestion()
	req.Add(unix.IFLA_IFNAME, append([]byte(name), 0))
	body, err := s.route.Ask(ctx, req)
	if err != nil {
		return link{}, err
	}
	return parseLink(body)
}

func linkQuestion() *rtnetlink.Request {
	req := rtnetlink.NewRequest(unix.RTM_GETLINK, 0, linkBody(0, 0))
	req.AddNumber(unix.IFLA_EXT_MASK, skipStats)
	return req
}

// linkBody encodes a struct ifinfomsg that sets flags.
func linkBody(index int, flags uint32) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	native.PutUint32(b[4:], uint32(index))
	native.PutUint32(b[8:], flags)
	native.PutUint32(b[12:], flags) // the flags to change
	return b
}

// parseLink parses the body of an RTM_NEWLINK.
func parseLink(body []byte) (link, error) {
	if len(body) < unix.SizeofIfInfomsg {
		return link{}, fmt.Errorf("link message of %d bytes: %w", len(body), unix.EBADMSG)
	}
	l := link{hardware: native.Uint16(body[2:]), flags: native.Uint32(body[8:])}
	l.Index = int(int32(native.Uint32(body[4:])))
	l.Up = l.flags&unix.IFF_UP != 0
	waiting := false
	for kind, value := range rtnetlink.Attributes(body[unix.SizeofIfInfomsg:]) {
		switch kind {
		case unix.IFLA_IFNAME:
			l.Name = unix.ByteSliceToString(value)
		case unix.IFLA_IFALIAS:
			l.Made = unix.ByteSliceToString(value) == dummyAlias
		case unix.IFLA_ADDRESS:
			if len(value) == len(l.MAC) && l.hardware == unix.ARPHRD_ETHER {
				l.MAC = [6]byte(value)
			}
		case unix.IFLA_MASTER:
			l.Master = int(rtnetlink.Number(value))
		case unix.IFLA_OPERSTATE:
			waiting = len(value) == 1 && (value[0] == operTesting || value[0] == operDormant)
		case unix.IFLA_CARRIER_CHANGES:
			l.Flaps = rtnetlink.Number(value)
		case unix.IFLA_LINKINFO:
			l.Kind = unix.ByteSliceToString(rtnetlink.Attribute(value, unix.IFLA_INFO_KIND))
		case unix.IFLA_AF_SPEC:
			inet := rtnetlink.Attribute(rtnetlink.Attribute(value, unix.AF_INET), unix.IFLA_INET_CONF)
			l.promotes = setting(inet, promoteSecondaries-1) != 0
			l.arp = arpSettings{announce: setting(inet, arpAnnounce-1), ignore: setting(inet, arpIgnore-1)}
			l.forwards = setting(rtnetlink.Attribute(rtnetlink.Attribute(value, unix.AF_INET6), unix.IFLA_INET6_CONF), forwardingIPv6) != 0
		}
	}
	// The operational state alone is not enough, because it follows the carrier with a
	// delay.
	l.Carrier = l.flags&unix.IFF_LOWER_UP != 0 && !waiting
	l.Neighbors = l.hasNeighbors()
	return l, nil
}

// setting returns setting number i of a link, or 0 if the kernel does not report it.
func setting(settings []byte, i int) uint32 {
	if len(settings) < 4*i+4 {
		return 0
	}
	return native.Uint32(settings[4*i:])
}

// setLink returns a request to bring a link up, or to keep secondary addresses when the
// primary is removed. The latter is the sysctl net.ipv4.conf.<link>.promote_secondaries.
// Netlink can set it even if /proc/sys is read-only.
func setLink(index int, up, promote bool) *rtnetlink.Request {
	var flags uint32
	if up {
		flags = unix.IFF_UP
	}
	req := rtnetlink.NewRequest(unix.RTM_SETLINK, 0, linkBody(index, flags))
	if promote {
		conf := rtnetlink.AppendNumber(nil, promoteSecondaries, 1)
		inet := rtnetlink.AppendAttribute(nil, unix.IFLA_INET_CONF|unix.NLA_F_NESTED, conf)
		req.Add(unix.IFLA_AF_SPEC|unix.NLA_F_NESTED, rtnetlink.AppendAttribute(nil, unix.AF_INET|unix.NLA_F_NESTED, inet))
	}
	return req
}
