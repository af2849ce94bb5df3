package linux

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/rtnetlink"
)

const (
	// skipStats is RTEXT_FILTER_SKIP_STATS: counters are most of a link's
	// message, and nobody here reads them.
	skipStats = 1 << 3
	// promoteSecondaries is IPV4_DEVCONF_PROMOTE_SECONDARIES.
	promoteSecondaries = 20
	// forwardingIPv6 is DEVCONF_FORWARDING.
	forwardingIPv6 = 0
	// operTesting and operDormant are the states of RFC 2863 in which a link
	// has a carrier and takes no traffic: a test, or a login (802.1X) before
	// which the switch lets nothing through.
	operTesting, operDormant = 4, 5
)

// link is a link as the kernel keeps it.
type link struct {
	announce.Link
	flags    uint32
	hardware uint16 // ARPHRD_*
	// flaps counts how often the carrier came or went.
	flaps uint32
	// promotes says that secondary addresses stay when the primary goes.
	promotes bool
	// forwards says that the node is an IPv6 router on the link.
	forwards bool
}

func (s *Stack) links(ctx context.Context) ([]link, error) {
	return rtnetlink.Dump(ctx, s.route, dumpTries, linkQuestion(), func(body []byte) (link, bool, error) {
		l, err := parseLink(body)
		return l, err == nil, err
	})
}

// link returns the link with that name; ENODEV when there is none.
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

// linkBody writes a struct ifinfomsg that sets flags.
func linkBody(index int, flags uint32) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	native.PutUint32(b[4:], uint32(index))
	native.PutUint32(b[8:], flags)
	native.PutUint32(b[12:], flags) // what changes
	return b
}

// parseLink reads the body of a RTM_NEWLINK.
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
			l.Name = rtnetlink.Text(value)
		case unix.IFLA_ADDRESS:
			if len(value) == len(l.MAC) && l.hardware == unix.ARPHRD_ETHER {
				l.MAC = [6]byte(value)
			}
		case unix.IFLA_MASTER:
			l.Master = int(rtnetlink.Number(value))
		case unix.IFLA_OPERSTATE:
			waiting = len(value) == 1 && (value[0] == operTesting || value[0] == operDormant)
		case unix.IFLA_CARRIER_CHANGES:
			l.flaps = rtnetlink.Number(value)
		case unix.IFLA_LINKINFO:
			l.Kind = rtnetlink.Text(rtnetlink.Attribute(value, unix.IFLA_INFO_KIND))
		case unix.IFLA_AF_SPEC:
			l.promotes = setting(rtnetlink.Attribute(rtnetlink.Attribute(value, unix.AF_INET), unix.IFLA_INET_CONF), promoteSecondaries-1)
			l.forwards = setting(rtnetlink.Attribute(rtnetlink.Attribute(value, unix.AF_INET6), unix.IFLA_INET6_CONF), forwardingIPv6)
		}
	}
	// The operational state alone says too little: it follows the carrier
	// only some time later.
	l.Carrier = l.flags&unix.IFF_LOWER_UP != 0 && !waiting
	l.Neighbors = l.hasNeighbors()
	return l, nil
}

// setting says whether one of the settings of a link is on. They have a number each.
func setting(settings []byte, i int) bool {
	return len(settings) >= 4*i+4 && native.Uint32(settings[4*i:]) != 0
}

// setLink asks for a link to be up, or to keep secondary addresses when the
// primary goes. The latter is the sysctl net.ipv4.conf.<link>.promote_secondaries,
// which netlink sets also where /proc/sys is read-only.
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
