package ipam_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/service"
)

// terms parses a key and ports: "web 80/TCP 53/UDP", or "- 80/TCP" without a key.
func terms(text string) (t ipam.Terms) {
	for i, word := range strings.Fields(text) {
		if i == 0 {
			t.Key = strings.Trim(word, "-")
			continue
		}
		number, protocol, _ := strings.Cut(word, "/")
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			panic(err)
		}
		t.Ports = append(t.Ports, service.Port{Protocol: protocol, Number: int32(n)})
	}
	return t
}

const (
	addrV4 = "192.0.2.1"
	addrV6 = "2001:db8::2"
)

// do performs steps, which are about addrV4 unless they name another address. It returns the
// refusals in order, and then each held address with its owners and their collisions.
func do(t *testing.T, steps string) string {
	t.Helper()
	b, text := ipam.NewStore(), strings.Builder{}
	for step := range strings.SplitSeq(steps, ";") {
		f := strings.Fields(step)
		by, a := ipam.Owner(f[1]), addrV4
		if len(f) == 3 {
			a = f[2]
		}
		var err error
		switch f[0] {
		case "grant":
			b.Grant(by, terms(strings.Join(f[2:], " ")))
		case "hold":
			err = b.Hold(ip(a), by, false)
		case "hold-wide":
			err = b.Hold(ip(a), by, true)
		case "adopt":
			err = b.Adopt(ip(a), by)
		case "release":
			b.Release(ip(a), by)
		case "block":
			b.SetBlocked(map[netip.Addr]string{ip(f[1]): "address of node node-1"})
		default:
			t.Fatalf("no such step: %s", step)
		}
		if err != nil {
			fmt.Fprintf(&text, "refused: %v\n", err)
		}
	}
	for _, a := range []string{addrV4, addrV6} {
		var holders []string
		for _, by := range b.Holders(ip(a)) {
			holder := string(by)
			for _, c := range b.Collisions(by) {
				switch {
				case c.Addr != ip(a):
				case c.Reason == ipam.HeldByPort:
					holder += fmt.Sprintf(", its port %s is with %s", c.Port, c.By)
				default:
					holder += fmt.Sprintf(", its %s is not that of %s", c.Reason, c.By)
				}
			}
			holders = append(holders, holder)
		}
		if len(holders) > 0 {
			fmt.Fprintf(&text, "%s: %s\n", a, strings.Join(holders, "; "))
		}
	}
	return strings.TrimSuffix(text.String(), "\n")
}

func TestAddressIsSharedByItsTerms(t *testing.T) {
	tests := []struct{ name, steps, want string }{
		{"no owner shares without a key",
			"hold a/1; grant a/2 - 81/TCP; hold a/2",
			`refused: 192.0.2.1 is held by a/1
192.0.2.1: a/1`},
		{"the same key and other ports",
			"grant a/1 k 80/TCP; grant a/2 k 80/UDP 443/TCP; grant a/3 k; hold a/1; hold a/2; hold a/3",
			"192.0.2.1: a/1; a/2; a/3"},
		{"a key that only one of them has",
			"grant a/1 k 80/TCP; hold a/1; grant a/2 K 81/TCP; hold a/2; hold a/3",
			`refused: 192.0.2.1 is held by a/1
refused: 192.0.2.1 is held by a/1
192.0.2.1: a/1`},
		{"a refusal names the first taken port",
			"grant a/1 k 443/TCP 80/TCP; hold a/1; grant a/2 k 443/TCP 80/UDP 80/TCP; hold a/2",
			`refused: port 80/TCP of 192.0.2.1 is held by a/1
192.0.2.1: a/1`},
		{"a port of the second owner",
			"grant a/1 k 80/TCP; grant a/2 k 81/TCP; grant a/3 k 81/TCP; hold a/1; hold a/2; hold a/3",
			`refused: port 81/TCP of 192.0.2.1 is held by a/2
192.0.2.1: a/1; a/2`},
		{"other namespaces share only wide",
			`grant a/1 k 80/TCP; grant b/1 k 81/TCP; grant a/2 k 82/TCP; hold a/1; hold b/1; hold-wide b/1;
			 hold a/2`,
			`refused: 192.0.2.1 is held by a/1 of another namespace
refused: 192.0.2.1 is held by b/1 of another namespace
192.0.2.1: a/1; b/1`},
		{"a blocked address gets no further owner",
			"grant a/1 k 80/TCP; grant a/2 k 81/TCP; hold a/1; block 192.0.2.1; hold a/2; hold a/1",
			`refused: 192.0.2.1 cannot be handed out: address of node node-1
192.0.2.1: a/1`},
		{"an adopted address stays despite ports and namespaces",
			`grant a/1 k 80/TCP; grant b/1 k 80/TCP 81/TCP; grant a/2 l; adopt a/1 2001:db8::2;
			 adopt b/1 2001:db8::2; adopt a/2 2001:db8::2; adopt a/3 2001:db8::2`,
			`refused: 2001:db8::2 is held by a/1
refused: 2001:db8::2 is held by a/1
2001:db8::2: a/1; b/1, its port 80/TCP is with a/1`},
		{"a port that its owner gives up is free at once",
			"grant a/1 k 80/TCP 81/TCP; hold a/1; grant a/2 k 81/TCP; grant a/1 k 80/TCP; hold a/2",
			"192.0.2.1: a/1; a/2"},
		{"a port goes from its owner to the next owner that wants it",
			`grant a/1 k 80/TCP; grant a/2 k 81/TCP; grant a/3 k 82/TCP; hold a/1; hold a/2; hold a/3;
			 grant a/3 k 80/TCP; grant a/2 k 80/TCP; release a/1`,
			"192.0.2.1: a/2, its port 80/TCP is with a/3; a/3"},
		{"the terms of a single owner take effect",
			"grant a/1 k 80/TCP; hold a/1; grant a/1 l 80/TCP; grant a/2 l 81/TCP; hold a/2",
			"192.0.2.1: a/1; a/2"},
		{"a single owner may want the address alone",
			"grant a/1 k 80/TCP; hold a/1; grant a/1 - 80/TCP; grant a/2 k 81/TCP; hold a/2",
			`refused: 192.0.2.1 is held by a/1
192.0.2.1: a/1`},
		{"another key is not in effect while others have the old one",
			`grant a/1 k 80/TCP; grant a/2 k 81/TCP; hold a/1; hold a/2; grant a/1 l 80/TCP; grant a/3 l 82/TCP;
			 hold a/3; grant a/3 k 82/TCP; hold a/3`,
			`refused: 192.0.2.1 is held by a/1
192.0.2.1: a/1, its key is not that of a/2; a/2; a/3`},
		{"until the others are gone",
			`grant a/1 k 80/TCP; grant a/2 k 81/TCP; hold a/1; hold a/2; grant a/1 l 80/TCP; release a/2;
			 grant a/3 l 82/TCP; hold a/3`,
			"192.0.2.1: a/1; a/3"},
		{"or want it too",
			"grant a/1 k 80/TCP; grant a/2 k 81/TCP; hold a/1; hold a/2; grant a/1 l 80/TCP; grant a/2 l 81/TCP",
			"192.0.2.1: a/1; a/2"},
		{"or all remaining owners want it",
			`grant a/1 k 80/TCP; grant a/2 k 81/TCP; grant a/3 k 82/TCP; hold a/1; hold a/2; hold a/3;
			 grant a/1 l 80/TCP; grant a/3 l 82/TCP; release a/2`,
			"192.0.2.1: a/1; a/3"},
		{"two cannot both be alone",
			"grant a/1 k 80/TCP; grant a/2 k 81/TCP; hold a/1; hold a/2; grant a/1; grant a/2",
			"192.0.2.1: a/1, its key is not that of a/2; a/2, its key is not that of a/1"},
		{"new terms take effect at each address that allows them",
			`grant a/1 k 80/TCP; grant a/2 k 81/TCP; hold a/1; hold a/2; hold a/2 2001:db8::2; grant a/2 l 80/TCP;
			 grant a/3 l; hold a/3 2001:db8::2`,
			`192.0.2.1: a/1; a/2, its key is not that of a/1, its port 80/TCP is with a/1
2001:db8::2: a/2; a/3`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, do(t, tt.steps)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
