package linux

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
)

// BenchmarkProbe1000 measures how much longer than configured a probe of 1,000 addresses
// takes on a segment without answers.
func BenchmarkProbe1000(b *testing.B) {
	for _, family := range []struct{ name, first string }{{"v4", "198.18.0.1"}, {"v6", "2001:db8::1"}} {
		b.Run(family.name, func(b *testing.B) {
			newWorld(b)
			newNeighborhood(b)
			s := newStack(b)
			ask := make([]netip.Addr, 1000)
			for i, a := 0, netip.MustParseAddr(family.first); i < len(ask); i, a = i+1, a.Next() {
				ask[i] = a
			}
			p := announce.Probing{Count: 3, Interval: 100 * time.Millisecond, Wait: 100 * time.Millisecond}
			told := time.Duration(p.Count-1)*p.Interval + p.Wait
			var over time.Duration
			for b.Loop() {
				start := time.Now()
				if got, err := s.Probe(b.Context(), "eth0", ask, p); err != nil || len(got) > 0 {
					b.Fatalf("%d answers, %v", len(got), err)
				}
				over += time.Since(start) - told
			}
			b.ReportMetric(over.Seconds()*1000/float64(b.N), "over-ms")
		})
	}
}

// BenchmarkListen measures the cost of packets that Listen does not report: the questions of other
// hosts, and other IPv6 packets, which the kernel drops.
func BenchmarkListen(b *testing.B) {
	mac := [6]byte{2, 0, 0, 0, 0, 3}
	question := addressed([6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, mac, unix.ETH_P_ARP,
		packetARP(arpRequest, mac, [4]byte{192, 0, 2, 7}, [6]byte{}, [4]byte{192, 0, 2, 8}))
	other := neighborMessage("fd00::2", "fd00::1", append([]byte{200}, make([]byte, 63)...))
	other6 := addressed([6]byte{2, 0, 0, 0, 0, 1}, mac, unix.ETH_P_IPV6, other)
	for _, traffic := range []struct {
		name  string
		frame []byte
	}{{"arp", question}, {"ipv6", other6}} {
		for _, listens := range []bool{false, true} {
			b.Run(traffic.name+map[bool]string{false: "/deaf", true: "/listening"}[listens], func(b *testing.B) {
				newWorld(b)
				there := newNeighborhood(b)
				ip(b, "addr add fd00::1/64 dev eth0 nodad")
				s := newStack(b)
				if listens {
					if _, err := s.Listen(b.Context(), mine); err != nil {
						b.Fatal(err)
					}
				}
				there.do(func() {
					fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
					if err != nil {
						b.Error(err)
						return
					}
					defer func() { _ = unix.Close(fd) }()
					frames := make([][]byte, b.N)
					for i := range frames {
						frames[i] = traffic.frame
					}
					b.ResetTimer()
					var before, after unix.Rusage
					_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
					say(b, fd, "eth0", frames...)
					if err := s.receiver.catchUp(); err != nil {
						b.Error(err)
					}
					_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
					b.ReportMetric(float64(cpu(after)-cpu(before))/float64(b.N), "cpu-ns/op")
				})
			})
		}
	}
}

func cpu(r unix.Rusage) int64 { return unix.TimevalToNsec(r.Utime) + unix.TimevalToNsec(r.Stime) }
