package ipamgrpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/testing/ipamtest"
)

// answering answers every Allocate with the same addresses.
type answering struct {
	ipamv1.UnimplementedIPAMServer
	ips []string
}

func (a *answering) Allocate(context.Context, *ipamv1.AllocateRequest) (*ipamv1.AllocateResponse, error) {
	reply := &ipamv1.AllocateResponse{}
	for _, ip := range a.ips {
		reply.Ips = append(reply.Ips, &ipamv1.AllocatedIP{Ip: ip})
	}
	return reply, nil
}

// printAnswers lists the result of each claim, which is its address or the kind of its error, and
// then the surplus.
func printAnswers(answers []ipam.Answer) string {
	var list []string
	for _, a := range answers {
		got := a.Grant.Address.String()
		var e *ipam.Error
		if errors.As(a.Err, &e) {
			got = string(e.Kind)
		}
		if len(a.Surplus) > 0 {
			got += " surplus " + addr.Join(a.Surplus, ", ")
		}
		list = append(list, got)
	}
	return strings.Join(list, "; ")
}

func TestAnswersAreChecked(t *testing.T) {
	many := func(n int) (ips []string) {
		for i := range n {
			ips = append(ips, fmt.Sprintf("198.51.100.%d", i+1))
		}
		return ips
	}
	v4, v6, both := []any{addr.V4}, []any{addr.V6}, []any{addr.V4, addr.V6}
	const a, b, six, six2 = "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"
	for _, tt := range []struct {
		name string
		want []any
		ips  []string
		got  string
		says string // part of the first error
	}{
		{"IPv4", v4, []string{a}, a, ""},
		{"IPv6", v6, []string{six}, six, ""},
		{"both families", both, []string{a, six}, a + "; " + six, ""},
		{"both families in another order", both, []string{six, a}, a + "; " + six, ""},
		{"another text of the address", v6, []string{"2001:0DB8:0::0:1"}, six, ""},
		{"an address twice", v4, []string{a, a}, a, ""},
		{"the requested address", []any{a}, []string{a}, a, ""},
		{"two requested addresses", []any{a, six}, []string{six, a}, a + "; " + six, ""},
		{"an address and a family", []any{a, addr.V6}, []string{a, six}, a + "; " + six, ""},

		{"nothing", v4, nil, "Exhausted", "without an IPv4 address"},
		{"not the requested address", []any{a}, nil, "Exhausted", "without 192.0.2.1"},
		{"one family of two", both, []string{a}, a + "; Exhausted", "without an IPv6 address"},
		{"the other family", v4, []string{six}, "Unknown surplus " + six, "asked for an IPv4 address, it gives 2001:db8::1"},
		{"both families for one", v4, []string{a, six}, a + " surplus " + six, ""},
		{"two addresses of a family", v4, []string{a, b}, "Unknown surplus " + a + ", " + b, "it must give one"},
		{"two addresses of one of two families", both, []string{six2, a, six}, a + " surplus " + six2 + ", " + six + "; Unknown", "it must give one"},
		{"another address than the requested one", []any{a}, []string{b}, "Unknown surplus " + b, "asked for 192.0.2.1, it gives 192.0.2.2"},
		{"the requested address and another one", []any{a}, []string{a, b}, a + " surplus " + b, ""},
		{"one of two requested addresses", []any{a, six}, []string{six}, "Exhausted; " + six, "without 192.0.2.1"},
		{"17 addresses", v4, many(17), "Unknown", "17 addresses, and at most 16"},
		{"1,000 addresses", v4, slices.Repeat(many(200), 5), "Unknown", "1000 addresses"},

		{"no IP address", v4, []string{"web"}, "Unknown", `"web" is no IP address`},
		{"no text", v4, []string{""}, "Unknown", `"" is no IP address`},
		{"a prefix", v4, []string{a + "/32"}, "Unknown", "is no IP address"},
		{"a range", v4, []string{a + "-" + b}, "Unknown", "is no IP address"},
		{"a port", v4, []string{a + ":80"}, "Unknown", "is no IP address"},
		{"blanks", v4, []string{" " + a}, "Unknown", "is no IP address"},
		{"a line break", v4, []string{a + "\n"}, "Unknown", "is no IP address"},
		{"leading zeros", v4, []string{"192.000.002.001"}, "Unknown", "is no IP address"},
		{"a long text", v4, []string{strings.Repeat("1", 10_000)}, "Unknown", "111..."},
		{"brackets", v6, []string{"[" + six + "]"}, "Unknown", "is no IP address"},
		{"IPv4 in IPv6 form", v4, []string{"::ffff:" + a}, "Unknown", "as IPv4 if it is IPv4"},
		{"a zone", v6, []string{six + "%eth0"}, "Unknown", "without a zone"},
		{"unspecified", v4, []string{"0.0.0.0"}, "Unknown", "no Service can have the address 0.0.0.0"},
		{"unspecified IPv6", v6, []string{"::"}, "Unknown", "no Service can have the address ::"},
		{"loopback", v4, []string{"127.0.0.1"}, "Unknown", "no Service can have"},
		{"multicast", v4, []string{"224.0.0.5"}, "Unknown", "no Service can have"},
		{"broadcast", v4, []string{"255.255.255.255"}, "Unknown", "no Service can have"},
		{"link-local", v6, []string{"fe80::1"}, "Unknown", "no Service can have"},
		{"a valid and an invalid address", v4, []string{a, "web"}, "Unknown surplus " + a, `"web" is no IP address`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, _ := serve(t, &answering{ips: tt.ips})
			claims := claimsOf("web", tt.want...)
			answers := g.Claim(t.Context(), claims)
			if diff := cmp.Diff(tt.got, printAnswers(answers)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var says string
			for _, a := range answers {
				if a.Err != nil && says == "" {
					says = a.Err.Error()
				}
			}
			if !strings.Contains(says, tt.says) || (tt.says == "") != (says == "") || len(says) > 500 {
				t.Errorf("the message is %q, want %q in it", says, tt.says)
			}
			for i, a := range answers {
				if a.Err == nil && a.Grant.Key != claims[i].Key {
					t.Errorf("the grant has the key %q, want %q", a.Grant.Key, claims[i].Key)
				}
			}
		})
	}
}

// bytesOnly is a codec for servers that do not speak protobuf.
type bytesOnly struct{}

func (bytesOnly) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (bytesOnly) Unmarshal(_ []byte, _ any) error { return nil }
func (bytesOnly) Name() string                    { return "proto" }

func TestUnreadableAnswersAreUnknown(t *testing.T) {
	for _, tt := range []struct {
		name, answer, says string
	}{
		{"an answer that is not protobuf", "<html>", "answers Allocate with what cannot be read"},
		{"a number where the addresses should be", "\x08\x01", "without an IPv4 address"}, // protobuf takes it for an unknown field
		{"a truncated message", "\x0a\x0b\x0a\x09192", "answers Allocate with what cannot be read"},
		{"a text that is not UTF-8", "\x0a\x03\x0a\x01\xff", "answers Allocate with what cannot be read"},
		{"an endless answer", strings.Repeat("\x0a\x00", longestAnswer), "what cannot be read: grpc: received message larger than max"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			socket := ipamtest.Socket(t)
			ipamtest.Serve(t, listen(t, socket), ipamv1.UnimplementedIPAMServer{}, grpc.ForceServerCodec(bytesOnly{}),
				grpc.UnaryInterceptor(func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
					return []byte(tt.answer), nil
				}))
			g, _ := open(t, socket)
			err := failure(t, g)
			want := ipam.KindUnknown
			if strings.Contains(tt.says, "without") {
				want = ipam.KindExhausted
			}
			if got := kind(t, err); got != want || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %s (%v), want %s with %q", got, err, want, tt.says)
			}
		})
	}
}

// For any answer of a server, this holds: a grant matches its claim, a Service can have its
// address, and each address of the answer is either granted or surplus.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{"192.0.2.1", "192.0.2.1 2001:db8::1", "::ffff:192.0.2.1", "fe80::1%eth0 192.0.2.1", "192.0.2.1 192.0.2.2", "x"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, answer string, named bool) {
		claims := []numbered{{claim("web", addr.V4), 0}, {claim("web", addr.V6), 1}}
		if named {
			claims = []numbered{{claim("web", "192.0.2.1"), 0}}
		}
		c := &connection{socket: "/s"}
		answers := c.read(claims, nil, strings.Split(answer, " "))
		used := slices.Clone(answers[0].Surplus)
		for i, a := range answers {
			got := a.Grant.Address
			switch {
			case a.Err != nil && got.IsValid(), a.Err == nil && !addr.Assignable(got):
				t.Errorf("claim %d got %+v", i, a)
			case a.Err == nil && (addr.FamilyOf(got) != claims[i].Family || claims[i].Address.IsValid() && got != claims[i].Address):
				t.Errorf("claim %d for %s or %s got %s", i, claims[i].Family, claims[i].Address, got)
			case a.Err == nil:
				used = append(used, got)
			}
		}
		if found, _ := parse(strings.Split(answer, " ")); len(addr.Without(found, used)) > 0 || len(used) != len(found) {
			t.Errorf("for %v the result has %v", found, used)
		}
	})
}
