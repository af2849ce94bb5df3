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

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/rtnetlink"
)

// needFlows skips the test if the kernel does not track connections.
func needFlows(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/sys/net/netfilter/nf_conntrack_max"); errors.Is(err, os.ErrNotExist) {
		t.Skip("this kernel does not track connections: the test cannot check that Forget deletes flows")
	}
}

// flow adds a flow to the connection tracking table.
func flow(t *testing.T, s *Stack, protocol byte, port uint16, from, to string) {
	t.Helper()
	const flowNew, ctaReply, ctaProtocolInfo, ctaTimeout = 0, 2, 4, 7
	source, destination := netip.MustParseAddr(from), netip.MustParseAddr(to)
	req := rtnetlink.NewRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|flowNew, unix.NLM_F_CREATE|unix.NLM_F_EXCL,
		[]byte{rtnetlink.Family(source), unix.NFNETLINK_V0, 0, 0})
	req.Add(ctaTuple|unix.NLA_F_NESTED, tuple(protocol, source, destination, port, 53))
	req.Add(ctaReply|unix.NLA_F_NESTED, tuple(protocol, destination, source, 53, port))
	req.Add(ctaTimeout, binary.BigEndian.AppendUint32(nil, 600))
	if protocol == unix.IPPROTO_TCP {
		const ctaTCP, ctaTCPState, established = 1, 1, 3
		state := rtnetlink.AppendAttribute(nil, ctaTCPState, []byte{established})
		req.Add(ctaProtocolInfo|unix.NLA_F_NESTED, rtnetlink.AppendAttribute(nil, ctaTCP|unix.NLA_F_NESTED, state))
	}
	if err := s.flows.Do(t.Context(), req); err != nil {
		t.Fatalf("make a flow from %s to %s: %v", from, to, err)
	}
}

// tuple returns the tuple of one direction of a flow.
func tuple(protocol byte, from, to netip.Addr, fromPort, toPort uint16) []byte {
	const ctaIPv4From, ctaIPv6From, ctaPortFrom, ctaPortTo = 1, 3, 2, 3
	fromKind, toKind := uint16(ctaIPv4From), uint16(ctaIPv4To)
	if from.Is6() {
		fromKind, toKind = ctaIPv6From, ctaIPv6To
	}
	ip := rtnetlink.AppendAttribute(nil, fromKind, from.AsSlice())
	ip = rtnetlink.AppendAttribute(ip, toKind, to.AsSlice())
	ports := rtnetlink.AppendAttribute(nil, ctaProtocolNumber, []byte{protocol})
	ports = rtnetlink.AppendAttribute(ports, ctaPortFrom, binary.BigEndian.AppendUint16(nil, fromPort))
	ports = rtnetlink.AppendAttribute(ports, ctaPortTo, binary.BigEndian.AppendUint16(nil, toPort))
	b := rtnetlink.AppendAttribute(nil, ctaTupleIP|unix.NLA_F_NESTED, ip)
	return rtnetlink.AppendAttribute(b, ctaTupleProtocol|unix.NLA_F_NESTED, ports)
}

func TestForgetDeletesFlowsToAnAddress(t *testing.T) {
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
	flow(t, s, unix.IPPROTO_UDP, 999, "192.0.2.9", "198.51.100.1") // a flow from the address
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
	make() // no older flow is left that could interfere
	left, err := rtnetlink.Dump(t.Context(), s.flows, 1, flowRequest(flowGet, unix.AF_INET), func(body []byte) (byte, bool, error) {
		protocol, _ := flowTo(body[sizeofFlow:])
		return protocol, protocol != unix.IPPROTO_UDP, nil
	})
	if err != nil || string(left) != string([]byte{unix.IPPROTO_TCP}) {
		t.Errorf("left besides UDP: %v, %v", left, err)
	}
}

// A client that keeps sending from one port keeps its first destination.
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
		must(t, err)
		defer c.Close()
		backends[at] = c
	}
	ip(t, "route add 192.0.2.0/24 dev lo")
	translate("127.0.0.2")
	client, err := net.Dial("udp4", "192.0.2.9:53")
	must(t, err)
	defer client.Close()
	arrives := func(at string) {
		t.Helper()
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		_ = backends[at].SetReadDeadline(time.Now().Add(patience))
		if _, _, err := backends[at].ReadFrom(make([]byte, 1)); err != nil {
			t.Fatalf("no packet arrives at %s: %v", at, err)
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

// refusing is a kernel that refuses every request.
type refusing struct {
	errno   unix.Errno
	answers [][]byte
}

func (k *refusing) Send(msg []byte) error {
	h, _, _, err := rtnetlink.Cut(msg)
	result := make([]byte, 4+unix.SizeofNlMsghdr)
	native.PutUint32(result, uint32(-int32(k.errno)))
	k.answers = append(k.answers, rtnetlink.NewRequest(unix.NLMSG_ERROR, 0, result).AppendTo(nil, h.Seq))
	return err
}

func (k *refusing) Receive(buf []byte) (int, error) {
	n := copy(buf, k.answers[0])
	k.answers = k.answers[1:]
	return n, nil
}

func (k *refusing) Close() error { return nil }

func TestKernelsWithoutConnectionTrackingHaveNoFlows(t *testing.T) {
	refuse := func(errno unix.Errno) *rtnetlink.Conn { return rtnetlink.NewConn(&refusing{errno: errno}) }
	for _, tt := range []struct {
		name  string
		flows *rtnetlink.Conn
		want  error
	}{
		{"no netfilter", nil, nil},
		{"no connection tracking", refuse(unix.EINVAL), nil},
		{"no permission", refuse(unix.EPERM), unix.EPERM},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Stack{flows: tt.flows}
			if n, err := s.ForgetFlows(t.Context(), addrsOf("192.0.2.9", "fd00::9")); n != 0 || !errors.Is(err, tt.want) {
				t.Errorf("forgot %d, %v; want %v", n, err, tt.want)
			}
		})
	}
}
