package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"purelb.io/purelb/internal/announce"
	"purelb.io/purelb/internal/testing/expect"
)

// shortly is long enough for a kernel to answer on a veth link, if the machine is not busy.
var shortly = announce.Probing{Count: 2, Interval: 50 * time.Millisecond, Wait: 200 * time.Millisecond}

func addrsOf(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// probe asks which hosts have these addresses. It repeats the probe if this process stood still. A
// busy kernel may answer too late, so a test that expects an answer calls probe again.
func probe(t testing.TB, s *Stack, link string, ask ...string) announce.Answers {
	t.Helper()
	return probeUntil(t, func() (announce.Answers, error) {
		return s.Probe(t.Context(), link, addrsOf(ask...), shortly)
	})
}

// probeUntil probes until this process did not stand still during the probe.
func probeUntil(t testing.TB, probe func() (announce.Answers, error)) (answers announce.Answers) {
	t.Helper()
	eventually(t, "this process does not stand still", func() bool {
		var err error
		if answers, err = probe(); err != nil && !errors.Is(err, errStoodStill) {
			t.Fatal(err)
		}
		return err == nil
	})
	return answers
}

// answersAre probes until the answers equal want. If want has no answers, it probes once.
func answersAre(t testing.TB, want string, probe func() announce.Answers) {
	t.Helper()
	got := showAnswers(probe())
	for deadline := time.Now().Add(patience); got != want && want != "" && time.Now().Before(deadline); {
		got = showAnswers(probe())
	}
	expect.Equal(t, "answers", got, want)
}

func showAnswers(answers announce.Answers) string {
	var lines []string
	for addr, macs := range answers {
		slices.SortFunc(macs, func(a, b [6]byte) int { return bytes.Compare(a[:], b[:]) })
		line := addr.String()
		for _, mac := range macs {
			line += fmt.Sprintf(" %x", mac)
		}
		lines = append(lines, line+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func TestAProbeThroughAVLAN(t *testing.T) {
	newWorld(t)
	other := newNeighborhood(t)
	if err := exec.Command("ip", "link", "add", "eth0.7", "link", "eth0", "type", "vlan", "id", "7").Run(); err != nil {
		t.Log("this kernel has no VLAN links: not checked")
		return
	}
	ip(t, "link set eth0.7 up")
	other.ip(t, `link add eth0.7 link eth0 type vlan id 7
		link set eth0.7 up
		addr add 192.0.2.9/24 dev eth0.7
		addr add fd00::9/64 dev eth0.7 nodad`)
	s := newStack(t)
	for link, want := range map[string]string{"eth0": "", "eth0.7": "192.0.2.9 020000000002\nfd00::9 020000000002\n"} {
		answersAre(t, want, func() announce.Answers { return probe(t, s, link, "192.0.2.9", "fd00::9") })
	}
}

// The other host repeats its packet during the whole probe, because only the prober knows when the
// probe begins and ends.
func TestAnswersToAProbe(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("fd00::9")
	me, other := [6]byte{2, 0, 0, 0, 0, 1}, [6]byte{2, 0, 0, 0, 0, 3}
	everybody, nobody := [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, [6]byte{2, 0, 0, 0, 0, 0x77}
	solicited := [6]byte(groupBytes(v6))
	reply := packetARP(arpReply, other, v4.As4(), me, [4]byte{})
	tests := []struct {
		name  string
		frame []byte
		want  string
	}{
		{"an answer", addressed(me, other, unix.ETH_P_ARP, reply), "192.0.2.9 020000000003\n"},
		{"an unsolicited claim", addressed(everybody, other, unix.ETH_P_ARP, gratuitousARP(arpRequest, other, v4)), "192.0.2.9 020000000003\n"},
		{"another probe", addressed(everybody, other, unix.ETH_P_ARP, probeARP(other, v4)), "192.0.2.9 020000000003\n"},
		{"another probe in IPv6, to its group", addressed(solicited, other, unix.ETH_P_IPV6, probeNS(v6)), "fd00::9 020000000003\n"},
		{"our own probe that comes back", addressed(everybody, me, unix.ETH_P_ARP, probeARP(me, v4)), ""},
		{"not an answer to another host", addressed(nobody, other, unix.ETH_P_ARP, reply), ""},
		{"not an answer about another address", addressed(me, other, unix.ETH_P_ARP, gratuitousARP(arpReply, other, v4.Next())), ""},
		{"not an answer in another VLAN", addressed(me, other, unix.ETH_P_8021Q, append([]byte{0, 7, 8, 6}, reply...)), ""},
		{"an answer with only a priority in its tag", addressed(me, other, unix.ETH_P_8021Q, append([]byte{0xe0, 0, 8, 6}, reply...)), "192.0.2.9 020000000003\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			newWorld(t)
			there := newNeighborhood(t)
			fd := there.capture(t)
			s := newStack(t)
			answersAre(t, tt.want, func() announce.Answers {
				over, silent := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(silent)
					for {
						there.say(t, fd, tt.frame)
						select {
						case <-over:
							return
						case <-time.After(10 * time.Millisecond):
						}
					}
				}()
				answers := probe(t, s, "eth0", v4.String(), v6.String())
				close(over)
				<-silent
				return answers
			})
		})
	}
}

func groupBytes(a netip.Addr) []byte {
	mac := groupMAC(solicitedNode(a))
	return mac[:6]
}

func TestThousandsOfAddressesInOneProbe(t *testing.T) {
	newWorld(t)
	other := newNeighborhood(t)
	var script strings.Builder
	var ask []netip.Addr
	v4, v6 := netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("2001:db8::1")
	for i := range 2000 {
		ask = append(ask, v4, v6)
		if i%2 == 0 {
			fmt.Fprintf(&script, "addr add %s/32 dev eth0\naddr add %s/128 dev eth0 nodad\n", v4, v6)
		}
		v4, v6 = v4.Next(), v6.Next()
	}
	other.do(func() {
		cmd := exec.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(script.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("ip -batch: %v\n%s", err, out)
		}
	})
	var want []string
	for i, a := range ask {
		if i%4 < 2 {
			want = append(want, fmt.Sprintf("%s 020000000002\n", a))
		}
	}
	slices.Sort(want)
	s := newStack(t)
	answersAre(t, strings.Join(want, ""), func() announce.Answers {
		return probeUntil(t, func() (announce.Answers, error) { return s.Probe(t.Context(), "eth0", ask, shortly) })
	})
}

func TestProbeOfNoAddressSendsNothing(t *testing.T) {
	newWorld(t)
	other := newNeighborhood(t)
	fd := other.capture(t)
	s := newStack(t)
	dummy(t, s)
	long := announce.Probing{Count: 1, Wait: time.Hour}
	for _, tt := range []struct {
		link string
		ask  []netip.Addr
		p    announce.Probing
	}{
		{"lo", addrsOf("192.0.2.9", "fd00::9"), long},
		{"kube-lb0", addrsOf("192.0.2.9", "fd00::9"), long},
		{"eth0", nil, long},
		{"eth0", addrsOf("192.0.2.9"), announce.Probing{Wait: time.Hour}},
	} {
		if got, err := s.Probe(t.Context(), tt.link, tt.ask, tt.p); got == nil || len(got) > 0 || err != nil {
			t.Errorf("%s: %v, %v", tt.link, got, err)
		}
	}
	expect.NoError(t, s.Claim(t.Context(), "eth0", netip.MustParseAddr("192.0.2.8")))
	first := frame(t, fd, func(f []byte) bool { return bytes.Contains(f, []byte{192, 0, 2}) })
	if bytes.Contains(first, []byte{192, 0, 2, 9}) {
		t.Errorf("asked: %x", first)
	}
}

// Silence proves nothing if the other hosts perhaps could not answer.
func TestUnanswerableProbeIsAnError(t *testing.T) {
	tests := []struct {
		name   string
		link   string
		before string
		during func(t *testing.T, there neighborhood, cancel func())
		want   error
	}{
		{name: "no such link", link: "eth7", want: unix.ENODEV},
		{name: "a link that is down", link: "eth0", before: "link set eth0 down", want: errNoCarrier},
		{name: "a link without carrier", link: "eth8", before: "link add eth8 type veth peer name eth9\nlink set eth8 up", want: errNoCarrier},
		{
			name: "a carrier that is lost and returns", link: "eth0", want: errNoCarrier,
			during: func(t *testing.T, there neighborhood, _ func()) {
				there.ip(t, "link set eth0 down\nlink set eth0 up")
			},
		},
		{
			name: "a removed link", link: "eth0", want: unix.ENODEV,
			during: func(t *testing.T, _ neighborhood, _ func()) { ip(t, "link del eth0") },
		},
		{
			name: "a cancelled context", link: "eth0", want: context.Canceled,
			during: func(_ *testing.T, _ neighborhood, cancel func()) { cancel() },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			newWorld(t)
			there := newNeighborhood(t)
			fd := there.capture(t)
			s := newStack(t)
			ip(t, tt.before)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			over, done := make(chan struct{}), make(chan error)
			s.wait = func(ctx context.Context, d time.Duration) error {
				if d <= 0 {
					return ctx.Err()
				}
				select {
				case <-over:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			go func() {
				answers, err := s.Probe(ctx, tt.link, addrsOf("192.0.2.9"), announce.Probing{Count: 1, Wait: time.Second})
				if answers != nil {
					t.Errorf("answers: %v", answers)
				}
				done <- err
			}()
			if tt.during != nil {
				frame(t, fd, func(f []byte) bool { return bytes.Contains(f, []byte{192, 0, 2, 9}) })
				tt.during(t, there, cancel)
			}
			close(over)
			if err := <-done; !errors.Is(err, tt.want) || !strings.HasPrefix(err.Error(), "probe on "+tt.link+": ") {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestAStallDuringAProbeIsAnError(t *testing.T) {
	newWorld(struct{ testing.TB }{t}) // not in parallel, because other tests would stand still too
	newNeighborhood(t)
	s := newStack(t)
	settle(t, s)
	stop := exec.Command("sh", "-c", fmt.Sprintf("read waits; kill -STOP %[1]d; sleep 7; kill -CONT %[1]d", os.Getpid()))
	now, err := stop.StdinPipe()
	if err == nil {
		err = stop.Start()
	}
	expect.NoError(t, err)
	asked := addrsOf("192.0.2.9")
	probed := make(chan error)
	go func() {
		_, err := s.Probe(t.Context(), "eth0", asked, announce.Probing{Count: 1, Wait: 5 * time.Second})
		probed <- err
	}()
	eventually(t, "the probe waits", func() bool {
		buf := make([]byte, 1<<20)
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack, "[select") && strings.Contains(stack, "internal/announce/linux.wait(") {
				return true
			}
		}
		return false
	})
	if _, err := now.Write([]byte("yes\n")); err != nil {
		t.Error(err)
	}
	if err := stop.Wait(); err != nil {
		t.Error(err)
	}
	if err := <-probed; !errors.Is(err, errStoodStill) {
		t.Errorf("the error of the probe is %v", err)
	}
}

// On a busy machine, answers may wait in the socket for a while.
func TestProbeReadsWaitingAnswersBeforeItEnds(t *testing.T) {
	newWorld(t)
	other := newNeighborhood(t)
	fd := other.capture(t)
	s := newStack(t)
	late, err := openPacketSocket(unix.ETH_P_ARP)
	expect.NoError(t, err)
	defer late.file.Close()
	r := &receiver{sockets: []*packetSocket{indexIPv4: late}, listeners: make(map[*listener]bool)} // no goroutine reads
	l, err := s.link(t.Context(), "eth0")
	expect.NoError(t, err)
	var heard []string
	addrs := addrsOf("192.0.2.8", "192.0.2.9")
	about := scope{links: []int{l.Index}, about: span{numberOf(addrs[0]), numberOf(addrs[1])}}
	err = r.add(&listener{hear: func(w said) { heard = append(heard, showSaid(w)) }}, [2]scope{about})
	expect.NoError(t, err)
	mac := [6]byte{2, 0, 0, 0, 0, 3}
	for _, addr := range addrs {
		other.say(t, fd, addressed([6]byte{2, 0, 0, 0, 0, 1}, mac, unix.ETH_P_ARP, gratuitousARP(arpReply, mac, addr)))
	}
	eventually(t, "both are heard", func() bool {
		expect.NoError(t, r.catchUp())
		return len(heard) == 2
	})
}
