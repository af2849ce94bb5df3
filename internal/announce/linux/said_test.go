package linux

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/testing/expect"
)

func bytesOf(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	expect.NoError(t, err)
	return b
}

// neighborMessage returns an ICMPv6 packet with a correct checksum.
func neighborMessage(source, destination string, body []byte) []byte {
	from, to := netip.MustParseAddr(source), netip.MustParseAddr(destination)
	body = bytes.Clone(body)
	sum := checksum(from, to, body)
	body[2], body[3] = byte(sum>>8), byte(sum)
	return append(headerIPv6(from, to, len(body)), body...)
}

var testMAC = [6]byte{2, 0, 0, 0, 0, 1}

const (
	fd9          = "fd000000000000000000000000000009"
	sourceOption = "01 01 020000000003"
	targetOption = "02 01 020000000003"
)

func TestUnderstandPackets(t *testing.T) {
	arp := func(text string) []byte { return bytesOf(t, text) }
	nd := func(source, body string) []byte { return neighborMessage(source, "ff02::1", bytesOf(t, body)) }
	tests := []struct {
		name     string
		protocol uint16
		packet   []byte
		want     string
	}{
		{"a gratuitous request claims", unix.ETH_P_ARP, gratuitousARP(arpRequest, testMAC, netip.MustParseAddr("192.0.2.9")),
			"020000000001 has 192.0.2.9"},
		{"a gratuitous reply claims", unix.ETH_P_ARP, gratuitousARP(arpReply, testMAC, netip.MustParseAddr("192.0.2.9")),
			"020000000001 has 192.0.2.9"},
		{"a request claims the address of its sender", unix.ETH_P_ARP, arp("0001 0800 06 04 0001 020000000003 c0000209 000000000000 c0000201"),
			"020000000003 has 192.0.2.9"},
		{"an answer claims", unix.ETH_P_ARP, arp("0001 0800 06 04 0002 020000000003 c0000209 020000000001 c0000201"),
			"020000000003 has 192.0.2.9"},
		{"padding is ignored", unix.ETH_P_ARP, arp("0001 0800 06 04 0002 020000000003 c0000209 020000000001 c0000201 0000"),
			"020000000003 has 192.0.2.9"},
		{"a probe asks", unix.ETH_P_ARP, probeARP(testMAC, netip.MustParseAddr("192.0.2.9")),
			"020000000001 wants 192.0.2.9"},
		{"an answer without a sender address is ignored", unix.ETH_P_ARP, arp("0001 0800 06 04 0002 020000000003 00000000 020000000001 c0000201"), ""},
		{"a probe without a target is ignored", unix.ETH_P_ARP, probeARP(testMAC, netip.IPv4Unspecified()), ""},
		{"inverse ARP is not ARP", unix.ETH_P_ARP, arp("0001 0800 06 04 0008 020000000003 c0000209 020000000001 c0000201"), ""},
		{"not Ethernet", unix.ETH_P_ARP, arp("0006 0800 06 04 0002 020000000003 c0000209 020000000001 c0000201"), ""},
		{"cut short", unix.ETH_P_ARP, arp("0001 0800 06 04 0002 020000000003 c0000209 020000000001 c00002"), ""},

		{"an advertisement claims", unix.ETH_P_IPV6, unsolicitedNA(testMAC, netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fd00::9"), override),
			"020000000001 has fd00::9"},
		{"an advertisement without a MAC means the MAC of the frame", unix.ETH_P_IPV6, nd("fe80::1", "88 00 0000 20000000"+fd9),
			"0200000000ff has fd00::9"},
		{"other options are skipped", unix.ETH_P_IPV6, nd("fe80::1", "88 00 0000 20000000"+fd9+"0e 01 112233445566"+targetOption),
			"020000000003 has fd00::9"},
		{"a solicitation without a sender address is a probe", unix.ETH_P_IPV6, probeNS(netip.MustParseAddr("fd00::9")),
			"0200000000ff wants fd00::9"},
		{"a solicitation claims its sender address", unix.ETH_P_IPV6, nd("fd00::8", "87 00 0000 00000000"+fd9+sourceOption),
			"020000000003 has fd00::8"},
		{"a router advertisement is ignored", unix.ETH_P_IPV6, nd("fe80::1", "86 00 0000 20000000"+fd9), ""},
		{"an unknown code", unix.ETH_P_IPV6, nd("fe80::1", "88 01 0000 20000000"+fd9), ""},
		{"an option of length zero", unix.ETH_P_IPV6, nd("fe80::1", "88 00 0000 20000000"+fd9+"02 00 020000000003"), ""},
		{"an option longer than the packet", unix.ETH_P_IPV6, nd("fe80::1", "88 00 0000 20000000"+fd9+"02 02 020000000003"), ""},
		{"a group", unix.ETH_P_IPV6, nd("fe80::1", "88 00 0000 20000000 ff020000000000000000000000000001"), ""},
		{"a wrong checksum", unix.ETH_P_IPV6, change(nd("fe80::1", "88 00 0000 20000000"+fd9), 42, 0x77), ""},
		{"through a router", unix.ETH_P_IPV6, change(nd("fe80::1", "88 00 0000 20000000"+fd9), 7, 254), ""},
		{"not ICMPv6", unix.ETH_P_IPV6, change(nd("fe80::1", "88 00 0000 20000000"+fd9), 6, 17), ""},
		{"a length beyond the packet", unix.ETH_P_IPV6, change(nd("fe80::1", "88 00 0000 20000000"+fd9), 5, 32), ""},
		{"nothing", unix.ETH_P_IPV6, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if w, ok := understand(tt.protocol, tt.packet, [6]byte{2, 0, 0, 0, 0, 0xff}); ok {
				got = showSaid(w)
			}
			expect.Equal(t, "the result", got, tt.want)
		})
	}
}

func change(b []byte, at int, to byte) []byte {
	b[at] = to
	return b
}

func showSaid(w said) string {
	verb := "has"
	if w.probe {
		verb = "wants"
	}
	return fmt.Sprintf("%x %s %s", w.mac, verb, w.addr)
}

// Any host on the segment can send any packet.
func FuzzUnderstand(f *testing.F) {
	f.Add(true, probeARP(testMAC, netip.MustParseAddr("192.0.2.9")))
	f.Add(false, probeNS(netip.MustParseAddr("fd00::9")))
	f.Add(false, unsolicitedNA(testMAC, netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fd00::9"), override))
	f.Fuzz(func(t *testing.T, arp bool, packet []byte) {
		var protocol uint16 = unix.ETH_P_IPV6
		if arp {
			protocol = unix.ETH_P_ARP
		}
		if w, ok := understand(protocol, packet, testMAC); ok && w.addr.Is4() != arp {
			t.Errorf("%s of the other family", showSaid(w))
		}
	})
}

// The receiver's sum over the packet, with its checksum, is all ones.
func TestChecksumOfACompleteMessageIsZero(t *testing.T) {
	source := netip.MustParseAddr("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff")
	packet := unsolicitedNA([6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, source, source, override)
	expect.Equal(t, "the result", checksum(source, allNodes, packet[40:]), 0)
}
