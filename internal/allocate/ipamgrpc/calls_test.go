package ipamgrpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/testing/ipamtest"
)

// recording keeps the requests as text.
type recording struct {
	ipamv1.IPAMServer
	mu   sync.Mutex
	list []string
}

func (r *recording) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, fmt.Sprintf(format, args...))
}

func (r *recording) Allocate(ctx context.Context, q *ipamv1.AllocateRequest) (*ipamv1.AllocateResponse, error) {
	wants := "IPv4 " + fmt.Sprint(q.GetFamilies().GetWantIpv4()) + " IPv6 " + fmt.Sprint(q.GetFamilies().GetWantIpv6())
	if e := q.GetExplicit(); e != nil {
		wants = strings.Join(e.Ips, " ")
	}
	r.note("Allocate %s %s %q %s", q.Pool, q.Service, q.SharingKey, wants)
	return r.IPAMServer.Allocate(ctx, q)
}

func (r *recording) Release(ctx context.Context, q *ipamv1.ReleaseRequest) (*ipamv1.ReleaseResponse, error) {
	r.note("Release %s %s %q %t", q.Pool, q.Service, q.GetIp(), q.GetAll())
	return r.IPAMServer.Release(ctx, q)
}

func (r *recording) Stats(ctx context.Context, q *ipamv1.StatsRequest) (*ipamv1.StatsResponse, error) {
	r.note("Stats %s", q.Pool)
	return r.IPAMServer.Stats(ctx, q)
}

// asked returns the requests since its last call, sorted.
func (r *recording) asked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	slices.Sort(list)
	return list
}

func shared(service, key string, f addr.Family) ipam.Claim {
	c := claim(service, f)
	c.SharingKey = key
	c.Key = ipam.KeyOf("prod", c)
	return c
}

func TestBothFamiliesOfAServiceAreOneCall(t *testing.T) {
	r := &recording{IPAMServer: newStore()}
	g, _ := serve(t, r)
	const six = "2001:db8::5"
	for _, tt := range []struct {
		name   string
		claims []ipam.Claim
		asked  []string
	}{
		{"one family", []ipam.Claim{claim("one", addr.V4)}, []string{`Allocate default default/one "" IPv4 true IPv6 false`}},
		{"both families", []ipam.Claim{claim("two", addr.V4), claim("two", addr.V6)}, []string{`Allocate default default/two "" IPv4 true IPv6 true`}},
		{"named addresses", []ipam.Claim{claim("named", "192.0.2.6"), claim("named", "2001:db8::6")}, []string{`Allocate default default/named "" 192.0.2.6 2001:db8::6`}},
		{"a named address and a family", []ipam.Claim{claim("mixed", addr.V4), claim("mixed", six)}, []string{
			`Allocate default default/mixed "" 2001:db8::5`, `Allocate default default/mixed "" IPv4 true IPv6 false`,
		}},
		{"sharers", []ipam.Claim{shared("x", "a b", addr.V4), shared("y", "a b", addr.V4)}, []string{`Allocate default default/shared:a%20b "a b" IPv4 true IPv6 false`}},
		{"no key", []ipam.Claim{{Family: addr.V4}}, nil},
		{"no claims", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answers := g.Claim(t.Context(), tt.claims)
			if diff := cmp.Diff(tt.asked, r.asked()); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			for i, a := range answers {
				if tt.asked != nil && (a.Err != nil || addr.FamilyOf(a.Grant.Address) != tt.claims[i].Family || a.Grant.Key != tt.claims[i].Key) {
					t.Errorf("claim %d got %+v", i, a)
				}
				if tt.asked == nil && kind(t, a.Err) != ipam.KindInvalid {
					t.Errorf("claim %d got %+v, want an error", i, a)
				}
			}
		})
	}
}

func TestReleaseIsForOneAddressOrAll(t *testing.T) {
	s := newStore()
	r := &recording{IPAMServer: s}
	g, _ := serve(t, r)
	web, web6, dns := claim("web", addr.V4), claim("web", addr.V6), shared("x", "dns", addr.V4)
	var grants []ipam.Grant
	for _, a := range slices.Concat(g.Claim(t.Context(), []ipam.Claim{web, web6}), g.Claim(t.Context(), []ipam.Claim{dns})) {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		grants = append(grants, a.Grant)
	}
	r.asked()
	if err := errors.Join(g.Release(t.Context(), []ipam.Grant{grants[0], {Key: dns.Key}})...); err != nil {
		t.Fatal(err)
	}
	want := []string{
		fmt.Sprintf(`Release default default/shared:dns %q true`, ""),
		fmt.Sprintf(`Release default default/web %q false`, grants[0].Address),
	}
	if diff := cmp.Diff(want, r.asked()); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if got, want := s.Print(), "default default/web "+grants[1].Address.String(); got != want {
		t.Errorf("the server holds %s, want %s", got, want)
	}
	bad := ipam.Grant{Key: "web", Address: grants[0].Address}
	if got := kind(t, g.Release(t.Context(), []ipam.Grant{bad})[0]); got != ipam.KindInvalid {
		t.Errorf("the release of %+v has the error %q", bad, got)
	}
	if got := r.asked(); len(got) > 0 {
		t.Errorf("the server got invalid requests: %v", got)
	}
}

// statistician answers Stats with a fixed reply.
type statistician struct {
	ipamv1.UnimplementedIPAMServer
	reply *ipamv1.StatsResponse
}

func (s *statistician) Stats(context.Context, *ipamv1.StatsRequest) (*ipamv1.StatsResponse, error) {
	return s.reply, nil
}

func TestCapacityComesFromStats(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply *ipamv1.StatsResponse
		want  ipam.Capacity
	}{
		{
			"known",
			&ipamv1.StatsResponse{InUseV4: 1, InUseV6: 2, SizeV4: 3, SizeV6: 1<<64 - 1, HasKnownCapacity: true, DisplayAddresses: []string{"192.0.2.0/24", "", "a\nb"}},
			ipam.Capacity{
				Backend: "test", Known: true, InUse: map[addr.Family]uint64{addr.V4: 1, addr.V6: 2},
				Size: map[addr.Family]uint64{addr.V4: 3, addr.V6: 1<<64 - 1}, Ranges: []string{"192.0.2.0/24", "a b"},
			},
		},
		{
			"unknown",
			&ipamv1.StatsResponse{InUseV4: 1, SizeV4: 7},
			ipam.Capacity{Backend: "test", InUse: map[addr.Family]uint64{addr.V4: 1, addr.V6: 0}},
		},
		{
			"many ranges",
			&ipamv1.StatsResponse{DisplayAddresses: slices.Repeat([]string{"x"}, 100)},
			ipam.Capacity{Backend: "test", InUse: map[addr.Family]uint64{addr.V4: 0, addr.V6: 0}, Ranges: append(slices.Repeat([]string{"x"}, 64), "...")},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g, _ := serve(t, &statistician{reply: tt.reply})
			got, err := g.Capacity(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestACallHasTenSeconds(t *testing.T) {
	socket := ipamtest.Socket(t)
	s := newStore()
	var deadline bool
	s.Before = func(ctx context.Context, _ *ipamv1.AllocateRequest) error {
		_, deadline = ctx.Deadline()
		return nil
	}
	ipamtest.Serve(t, listen(t, socket), s)
	g, _ := open(t, socket)
	var given []time.Duration
	g.connection.withTimeout = func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
		given = append(given, d)
		return context.WithTimeout(ctx, time.Hour)
	}
	if err := failure(t, g); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(given, []time.Duration{10 * time.Second}) || !deadline {
		t.Errorf("the time limit is %v, and the server knows the deadline: %t", given, deadline)
	}
}
