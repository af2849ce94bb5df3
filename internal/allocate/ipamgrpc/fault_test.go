package ipamgrpc

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/testing/ipamtest"
)

// refusing answers every request with the same code.
type refusing struct {
	ipamv1.UnimplementedIPAMServer
	err error
}

func (r *refusing) Allocate(context.Context, *ipamv1.AllocateRequest) (*ipamv1.AllocateResponse, error) {
	return nil, r.err
}

func (r *refusing) Release(context.Context, *ipamv1.ReleaseRequest) (*ipamv1.ReleaseResponse, error) {
	return nil, r.err
}

func (r *refusing) Stats(context.Context, *ipamv1.StatsRequest) (*ipamv1.StatsResponse, error) {
	return nil, r.err
}

// kind returns the kind of err. "" means no error.
func kind(t *testing.T, err error) ipam.Kind {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *ipam.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *ipam.Error", err)
	}
	return e.Kind
}

func TestEachCodeHasItsMeaning(t *testing.T) {
	const (
		exhausted, taken, invalid            = ipam.KindExhausted, ipam.KindTaken, ipam.KindInvalid
		misconfigured                        = ipam.KindMisconfigured
		unavailable, unknown                 = ipam.KindUnavailable, ipam.KindUnknown
		done                                 = ipam.Kind("")
		laterVersion              codes.Code = 99
	)
	server := &refusing{}
	socket := ipamtest.Socket(t)
	ipamtest.Serve(t, listen(t, socket), server)
	g, seen := open(t, socket)
	for _, tt := range []struct {
		code                               codes.Code
		families, explicit, release, stats ipam.Kind
	}{
		{codes.Canceled, unknown, unknown, unknown, unknown},
		{codes.Unknown, unknown, unknown, unknown, unknown},
		{codes.InvalidArgument, invalid, invalid, invalid, invalid},
		{codes.DeadlineExceeded, unknown, unknown, unknown, unknown},
		{codes.NotFound, misconfigured, misconfigured, done, misconfigured},
		{codes.AlreadyExists, unknown, taken, unknown, unknown},
		{codes.PermissionDenied, misconfigured, misconfigured, misconfigured, misconfigured},
		{codes.ResourceExhausted, exhausted, exhausted, unknown, unknown},
		{codes.FailedPrecondition, misconfigured, misconfigured, misconfigured, misconfigured},
		{codes.Aborted, unknown, unknown, unknown, unknown},
		{codes.OutOfRange, invalid, invalid, invalid, invalid},
		{codes.Unimplemented, misconfigured, misconfigured, misconfigured, misconfigured},
		{codes.Internal, unknown, unknown, unknown, unknown},
		{codes.Unavailable, unavailable, unavailable, unavailable, unavailable},
		{codes.DataLoss, unknown, unknown, unknown, unknown},
		{codes.Unauthenticated, misconfigured, misconfigured, misconfigured, misconfigured},
		{laterVersion, unknown, unknown, unknown, unknown},
	} {
		t.Run(tt.code.String(), func(t *testing.T) {
			server.err = status.Error(tt.code, "because of the moon")
			families := failure(t, g)
			explicit := g.Claim(t.Context(), []ipam.Claim{claim("web", "192.0.2.1")})[0].Err
			release := g.Release(t.Context(), []ipam.Grant{{Key: claim("web", addr.V4).Key, Address: netip.MustParseAddr("192.0.2.1")}})[0]
			all := g.Release(t.Context(), []ipam.Grant{{Key: claim("web", addr.V4).Key}})[0]
			_, stats := g.Capacity(t.Context())
			for _, c := range []struct {
				call string
				err  error
				want ipam.Kind
			}{
				{"Allocate", families, tt.families},
				{"Allocate of an address", explicit, tt.explicit},
				{"Release", release, tt.release},
				{"Release of all", all, tt.release},
				{"Stats", stats, tt.stats},
			} {
				if got := kind(t, c.err); got != c.want {
					t.Errorf("%s: %q, want %q", c.call, got, c.want)
				}
				if c.err != nil && (!strings.Contains(c.err.Error(), "because of the moon") || !strings.Contains(c.err.Error(), socket) || status.Code(errors.Unwrap(c.err)) != tt.code) {
					t.Errorf("%s: %v lacks the server's message, its socket or its cause", c.call, c.err)
				}
			}
			for _, method := range []string{"Allocate", "Release", "Stats"} {
				if want := "/purelb.ipam.v1.IPAM/" + method + " " + tt.code.String(); !slices.Contains(seen.all(), want) {
					t.Errorf("the observer did not get %s", want)
				}
			}
		})
	}
}

func TestAlreadyExistsNamesBothMeanings(t *testing.T) {
	g, _ := serve(t, &refusing{err: status.Error(codes.AlreadyExists, "held")})
	for _, c := range []ipam.Claim{claim("web", addr.V4), claim("web", "192.0.2.1")} {
		err := g.Claim(t.Context(), []ipam.Claim{c})[0].Err
		for _, want := range []string{"another Service holds", "this Service has its addresses already"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not say %q", err, want)
			}
		}
	}
}

func TestServerTextIsSanitized(t *testing.T) {
	for _, tt := range []struct{ name, is, want string }{
		{"plain", "pool is full", "pool is full"},
		{"lines and tabs", "one\r\n\ttwo\x00\x1b[31mred", "one two [31mred"},
		{"not UTF-8", "a\xffb", "a?b"},
		{"other letters", "größe 東京", "größe 東京"},
		{"hidden direction", "a\u202eb", "a b"},
		{"long", strings.Repeat("x", 300), strings.Repeat("x", 256) + "..."},
	} {
		if got := text(tt.is); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}
