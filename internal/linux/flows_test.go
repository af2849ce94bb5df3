package linux

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// needFlows ends the test where the kernel keeps no track of flows.
func needFlows(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/sys/net/netfilter/nf_conntrack_max"); errors.Is(err, os.ErrNotExist) {
		t.Skip("this kernel does not track connections: not checked that flows are forgotten")
	}
}

// flow has the kernel believe that there is a flow.
func flow(t *testing.T, s *Stack, protocol byte, port uint16, from, to string) {
	t.Helper()
	source, destination := netip.MustParseAddr(from), netip.MustParseAddr(to)
	req := flowRequest(nl.IPCTNL_MSG_CT_NEW, familyOf(source))
	req.Flags |= unix.NLM_F_CREATE | unix.NLM_F_EXCL
	sourceKind, destinationKind := nl.CTA_IP_V4_SRC, nl.CTA_IP_V4_DST
	if source.Is6() {
		sourceKind, destinationKind = nl.CTA_IP_V6_SRC, nl.CTA_IP_V6_DST
	}
	tuple := func(kind int, source, destination netip.Addr, sport, dport uint16) {
		tuple := nl.NewRtAttr(kind|unix.NLA_F_NESTED, nil)
		ip := tuple.AddRtAttr(nl.CTA_TUPLE_IP|unix.NLA_F_NESTED, nil)
		ip.AddRtAttr(sourceKind, source.AsSlice())
		ip.AddRtAttr(destinationKind, destination.AsSlice())
		proto := tuple.AddRtAttr(nl.CTA_TUPLE_PROTO|unix.NLA_F_NESTED, nil)
		proto.AddRtAttr(nl.CTA_PROTO_NUM, nl.Uint8Attr(protocol))
		proto.AddRtAttr(nl.CTA_PROTO_SRC_PORT, binary.BigEndian.AppendUint16(nil, sport))
		proto.AddRtAttr(nl.CTA_PROTO_DST_PORT, binary.BigEndian.AppendUint16(nil, dport))
		req.AddData(tuple)
	}
	tuple(nl.CTA_TUPLE_ORIG, source, destination, port, 53)
	tuple(nl.CTA_TUPLE_REPLY, destination, source, 53, port)
	req.AddData(nl.NewRtAttr(nl.CTA_TIMEOUT, binary.BigEndian.AppendUint32(nil, 600)))
	if protocol == unix.IPPROTO_TCP {
		info := nl.NewRtAttr(nl.CTA_PROTOINFO|unix.NLA_F_NESTED, nil)
		info.AddRtAttr(nl.CTA_PROTOINFO_TCP|unix.NLA_F_NESTED, nil).AddRtAttr(nl.CTA_PROTOINFO_TCP_STATE, nl.Uint8Attr(3))
		req.AddData(info)
	}
	if errs := s.flows.batch(t.Context(), []*nl.NetlinkRequest{req}); errs[0] != nil {
		t.Fatalf("make a flow from %s to %s: %v", from, to, errs[0])
	}
}

func TestTheFlowsToAnAddressAreForgotten(t *testing.T) {
	needFlows(t)
	newWorld(t)
	s := newStack(t)
	make := func() {
		for port := range uint16(300) {
			flow(t, s, unix.IPPROTO_UDP, 1000+port, "198.51.100.1", "192.0.2.9")
			flow(t, s, unix.IPPROTO_UDP, 1000+port, "2001:db8::1", "fd00::9")
		}
	}
	make()
	flow(t, s, unix.IPPROTO_UDP, 999, "198.51.100.1", "192.0.2.8")
	flow(t, s, unix.IPPROTO_UDP, 999, "192.0.2.9", "198.51.100.1") // from it
	flow(t, s, unix.IPPROTO_TCP, 999, "198.51.100.1", "192.0.2.9")
	for _, tt := range []struct {
		addrs []netip.Addr
		want  int
	}{
		{nil, 0},
		{addrsOf("192.0.2.7", "fd00::7"), 0},
		{addrsOf("192.0.2.9"), 300},
		{addrsOf("192.0.2.9", "fd00::9"), 300},
		{addrsOf("192.0.2.9", "fd00::9"), 0},
		{addrsOf("192.0.2.8", "198.51.100.1"), 2},
	} {
		if got, err := s.ForgetFlows(t.Context(), tt.addrs); got != tt.want || err != nil {
			t.Errorf("%v: forgot %d, %v; want %d", tt.addrs, got, err, tt.want)
		}
	}
	make() // nothing of the old ones is left that would be in the way
	left, err := dump(t.Context(), s.flows, flowRequest(nl.IPCTNL_MSG_CT_GET, unix.AF_INET), func(body []byte) (byte, bool, error) {
		protocol, _ := flowTo(body[nl.SizeofNfgenmsg:])
		return protocol, protocol != unix.IPPROTO_UDP, nil
	})
	if err != nil || string(left) != string([]byte{unix.IPPROTO_TCP}) {
		t.Errorf("left besides UDP: %v, %v", left, err)
	}
}

// A client that goes on sending from one port stays with what it got first.
func TestAPinnedFlowIsFreed(t *testing.T) {
	needFlows(t)
	if _, err := exec.LookPath("nft"); err != nil {
		t.Fatal("this test translates addresses: it needs nft")
	}
	newWorld(t)
	s := newStack(t)
	ip(t, "addr add 127.0.0.2/8 dev lo\naddr add 127.0.0.3/8 dev lo")
	translate := func(to string) {
		nft := exec.Command("nft", "-f", "-")
		nft.Stdin = strings.NewReader(`table ip t
			delete table ip t
			table ip t {
				chain c {
					type nat hook output priority -100
					ip daddr 192.0.2.9 udp dport 53 dnat to ` + to + `
				}
			}`)
		if out, err := nft.CombinedOutput(); err != nil {
			t.Fatalf("nft: %v\n%s", err, out)
		}
	}
	backends := map[string]net.PacketConn{}
	for _, at := range []string{"127.0.0.2", "127.0.0.3"} {
		c, err := net.ListenPacket("udp4", at+":53")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		backends[at] = c
	}
	ip(t, "route add 192.0.2.0/24 dev lo")
	translate("127.0.0.2")
	client, err := net.Dial("udp4", "192.0.2.9:53")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	arrives := func(at string) {
		t.Helper()
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		_ = backends[at].SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, _, err := backends[at].ReadFrom(make([]byte, 1)); err != nil {
			t.Fatalf("nothing arrives at %s: %v", at, err)
		}
	}
	arrives("127.0.0.2")
	translate("127.0.0.3")
	arrives("127.0.0.2")
	if n, err := s.ForgetFlows(t.Context(), addrsOf("192.0.2.9")); n != 1 || err != nil {
		t.Errorf("forgot %d, %v", n, err)
	}
	arrives("127.0.0.3")
}

func TestWithoutAKernelThatTracksFlowsThereAreNone(t *testing.T) {
	refuse := func(errno unix.Errno) *conn {
		k := &script{}
		k.answer = func(seq uint32) [][]byte { return [][]byte{result(unix.NLMSG_ERROR, seq, errno)} }
		return newConn(k)
	}
	for _, tt := range []struct {
		name  string
		flows *conn
		want  error
	}{
		{"no netfilter", nil, nil},
		{"no connection tracking", refuse(unix.EINVAL), nil},
		{"no right to it", refuse(unix.EPERM), unix.EPERM},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Stack{flows: tt.flows}
			if n, err := s.ForgetFlows(t.Context(), addrsOf("192.0.2.9", "fd00::9")); n != 0 || !errors.Is(err, tt.want) {
				t.Errorf("forgot %d, %v; want %v", n, err, tt.want)
			}
		})
	}
}
