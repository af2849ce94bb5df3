package linux

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var testMAC = [6]byte{2, 0, 0, 0, 0, 1}

// The expected bytes are taken from the RFCs, field by field.
func TestPackets(t *testing.T) {
	tests := []struct {
		name string
		got  []byte
		want string
	}{
		{
			name: "gratuitous ARP request",
			got:  gratuitousARP(arpRequest, testMAC, netip.MustParseAddr("192.0.2.9")),
			want: "0001 0800 06 04 0001 020000000001 c0000209 000000000000 c0000209",
		},
		{
			name: "gratuitous ARP reply",
			got:  gratuitousARP(arpReply, testMAC, netip.MustParseAddr("192.0.2.9")),
			want: "0001 0800 06 04 0002 020000000001 c0000209 020000000001 c0000209",
		},
		{
			name: "ARP probe",
			got:  probeARP(testMAC, netip.MustParseAddr("192.0.2.9")),
			want: "0001 0800 06 04 0001 020000000001 00000000 000000000000 c0000209",
		},
		{
			name: "neighbor solicitation as a probe",
			got:  probeNS(netip.MustParseAddr("fd00::12:3456:789a")),
			want: "60000000 0018 3a ff" +
				"00000000000000000000000000000000 ff0200000000000000000001ff56789a" +
				"87 00 57b4 00000000" + // type, code, checksum, reserved; no option names the sender
				"fd00000000000000000000123456789a",
		},
		{
			name: "ARP request",
			got:  requestARP(testMAC, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.9")),
			want: "0001 0800 06 04 0001 020000000001 c0000201 000000000000 c0000209",
		},
		{
			name: "neighbor solicitation",
			got:  requestNS(testMAC, netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::12:3456:789a")),
			want: "60000000 0020 3a ff" +
				"fd000000000000000000000000000001 ff0200000000000000000001ff56789a" +
				"87 00 57a8 00000000" +
				"fd00000000000000000000123456789a" +
				"01 01 020000000001",
		},
		{
			name: "unsolicited neighbor advertisement",
			got:  unsolicitedNA(testMAC, netip.MustParseAddr("fe80::1"), netip.MustParseAddr("fd00::9"), override),
			want: "60000000 0020 3a ff" + // version, length, next header, hop limit
				"fe800000000000000000000000000001 ff020000000000000000000000000001" +
				"88 00 5913 20000000" + // type, code, checksum, flags: override only
				"fd000000000000000000000000000009" +
				"02 01 020000000001",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.ReplaceAll(tt.want, " ", "")
			if diff := cmp.Diff(want, hex.EncodeToString(tt.got)); diff != "" {
				t.Errorf("bytes (-want +got):\n%s", diff)
			}
		})
	}
}

// The receiver's sum over the packet, with its checksum, is all ones.
func TestChecksumOfACompleteMessageIsZero(t *testing.T) {
	source := netip.MustParseAddr("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff")
	packet := unsolicitedNA([6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, source, source, override)
	if got := checksum(source, allNodes, packet[40:]); got != 0 {
		t.Errorf("got %#x", got)
	}
}
