package linux

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
)

const (
	// skipStats is RTEXT_FILTER_SKIP_STATS: counters are most of a link's
	// message, and nobody here reads them.
	skipStats = 1 << 3
	// promoteSecondaries is IPV4_DEVCONF_PROMOTE_SECONDARIES.
	promoteSecondaries = 20
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
}

func (s *Stack) links(ctx context.Context) ([]link, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStats)))
	return dump(ctx, s.route, req, func(body []byte) (link, bool, error) {
		l, err := parseLink(body)
		return l, err == nil, err
	})
}

// link returns the link with that name; ENODEV when there is none.
func (s *Stack) link(ctx context.Context, name string) (link, error) {
	if len(name) >= unix.IFNAMSIZ {
		return link{}, fmt.Errorf("name longer than %d bytes: %w", unix.IFNAMSIZ-1, unix.ENODEV)
	}
	req := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	req.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStats)))
	req.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	body, err := s.route.ask(ctx, req)
	if err != nil {
		return link{}, err
	}
	return parseLink(body)
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
	for kind, value := range attributes(body[unix.SizeofIfInfomsg:]) {
		switch kind {
		case unix.IFLA_IFNAME:
			l.Name = text(value)
		case unix.IFLA_ADDRESS:
			if len(value) == len(l.MAC) && l.hardware == unix.ARPHRD_ETHER {
				l.MAC = [6]byte(value)
			}
		case unix.IFLA_OPERSTATE:
			waiting = len(value) == 1 && (value[0] == operTesting || value[0] == operDormant)
		case unix.IFLA_CARRIER_CHANGES:
			l.flaps = number(value)
		case unix.IFLA_LINKINFO:
			l.Kind = text(nested(value, unix.IFLA_INFO_KIND))
		case unix.IFLA_AF_SPEC:
			l.promotes = promotes(nested(nested(value, unix.AF_INET), unix.IFLA_INET_CONF))
		}
	}
	// The operational state alone says too little: it follows the carrier
	// only some time later.
	l.Carrier = l.flags&unix.IFF_LOWER_UP != 0 && !waiting
	return l, nil
}

// nested returns the attribute of that kind within another.
func nested(b []byte, want uint16) []byte {
	for kind, value := range attributes(b) {
		if kind == want {
			return value
		}
	}
	return nil
}

// promotes reads the IPv4 settings of a link: one number each, counted from 1.
func promotes(settings []byte) bool {
	const at = 4 * (promoteSecondaries - 1)
	return len(settings) >= at+4 && native.Uint32(settings[at:]) != 0
}

// setLink asks for a link to be up, or to keep secondary addresses when the
// primary goes. The latter is the sysctl net.ipv4.conf.<link>.promote_secondaries,
// which netlink sets also where /proc/sys is read-only.
func setLink(index int, up, promote bool) *nl.NetlinkRequest {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	if up {
		msg.Flags, msg.Change = unix.IFF_UP, unix.IFF_UP
	}
	req := nl.NewNetlinkRequest(unix.RTM_SETLINK, 0)
	req.AddData(msg)
	if promote {
		spec := nl.NewRtAttr(unix.IFLA_AF_SPEC|unix.NLA_F_NESTED, nil)
		inet := spec.AddRtAttr(unix.AF_INET|unix.NLA_F_NESTED, nil)
		conf := inet.AddRtAttr(unix.IFLA_INET_CONF|unix.NLA_F_NESTED, nil)
		conf.AddRtAttr(promoteSecondaries, nl.Uint32Attr(1))
		req.AddData(spec)
	}
	return req
}
