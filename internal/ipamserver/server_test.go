package ipamserver

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
	"purelb.io/purelb/internal/netbox"
	"purelb.io/purelb/internal/testing/netboxtest"
)

func TestAServiceKeepsItsAddressesAcrossARestart(t *testing.T) {
	w := newWorld(t, netboxtest.V46)
	for range 2 {
		s := w.server("prod")
		for _, tt := range []struct {
			request *ipamv1.AllocateRequest
			want    string
		}{
			{families("default", "default/web", addr.V4), "192.0.2.1"},
			{both("default", "default/web"), "192.0.2.1 2001:db8::10"},
			{both("other", "default/web"), "192.0.2.2 2001:db8::11"},
			{explicit("default/shared:www", "192.0.2.9"), "192.0.2.9"},
			{families("default", "default/shared:www", addr.V4), "192.0.2.9"},
		} {
			if got := text(s.Allocate(t.Context(), tt.request)); got != tt.want {
				t.Errorf("%v is answered with %s, want %s", tt.request, got, tt.want)
			}
		}
	}
	want := `192.0.2.1 prod:default/default/web/v4
192.0.2.2 prod:other/default/web/v4
192.0.2.9 prod:default/default/shared:www/v4
2001:db8::10 prod:default/default/web/v6
2001:db8::11 prod:other/default/web/v6`
	if diff := cmp.Diff(want, w.held()); diff != "" {
		t.Errorf("NetBox holds (-want +got):\n%s", diff)
	}
}

func TestRefusalsHaveTheirCodes(t *testing.T) {
	_, s := prod(t)
	if got := text(s.Allocate(t.Context(), explicit("default/holder", "192.0.2.7"))); got != "192.0.2.7" {
		t.Fatal(got)
	}
	for _, tt := range []struct {
		request *ipamv1.AllocateRequest
		want    codes.Code
	}{
		{explicit("default/web", "192.0.2.7"), codes.AlreadyExists},
		{explicit("default/web", "203.0.113.1"), codes.InvalidArgument},
		{explicit("default/web", "192.0.2.0"), codes.InvalidArgument},
		{explicit("default/web", "192.0.2"), codes.InvalidArgument},
		{explicit("default/web", "192.0.2.3", "192.0.2.4"), codes.InvalidArgument},
		{explicit("default/web"), codes.InvalidArgument},
		{families("default", "default/web"), codes.InvalidArgument},
		{both("default", ""), codes.InvalidArgument},
		{&ipamv1.AllocateRequest{Pool: "default", Service: "default/web"}, codes.InvalidArgument},
		{both("third", "default/web"), codes.NotFound},
	} {
		if got := text(s.Allocate(t.Context(), tt.request)); got != tt.want.String() {
			t.Errorf("%v is answered with %s, want %s", tt.request, got, tt.want)
		}
	}
	for _, tt := range []struct {
		request *ipamv1.ReleaseRequest
		want    codes.Code
	}{
		{everything("default/unknown"), codes.OK},
		{everything(""), codes.InvalidArgument},
		{&ipamv1.ReleaseRequest{Pool: "default", Service: "default/web"}, codes.InvalidArgument},
		// NOT_FOUND would mean that the Service holds nothing.
		{&ipamv1.ReleaseRequest{Pool: "third", Service: "default/web", Target: &ipamv1.ReleaseRequest_All{All: true}}, codes.FailedPrecondition},
	} {
		if _, err := s.Release(t.Context(), tt.request); status.Code(err) != tt.want {
			t.Errorf("%v is answered with %v, want %s", tt.request, err, tt.want)
		}
	}
	if _, err := s.Stats(t.Context(), &ipamv1.StatsRequest{Pool: "third"}); status.Code(err) != codes.NotFound {
		t.Errorf("the statistics of an unknown pool: %v", err)
	}
}

func TestAnAllocationIsAllOrNothing(t *testing.T) {
	w, s := prod(t)
	for i := range 6 {
		mustAllocate(t, s, families("default", fmt.Sprintf("default/web-%d", i), addr.V6))
	}
	if got := text(s.Allocate(t.Context(), families("default", "default/old", addr.V4))); got != "192.0.2.1" {
		t.Fatal(got)
	}
	before := w.held()
	for _, request := range []*ipamv1.AllocateRequest{
		both("default", "default/new"),
		both("default", "default/old"),
		explicit("default/new", "192.0.2.5", "2001:db8::10"),
	} {
		if got := text(s.Allocate(t.Context(), request)); got != "ResourceExhausted" && (request.GetExplicit() == nil || got != "AlreadyExists") {
			t.Errorf("%v is answered with %s", request, got)
		}
		if diff := cmp.Diff(before, w.held()); diff != "" {
			t.Errorf("after %v NetBox holds (-want +got):\n%s", request, diff)
		}
	}
}

// PureLB's repeated call finds the address that remains.
func TestFailedRollbackIsUnknown(t *testing.T) {
	w, s := prod(t)
	for i := range 6 {
		mustAllocate(t, s, families("default", fmt.Sprintf("default/web-%d", i), addr.V6))
	}
	w.SetFault(failDeletes)
	if got := text(s.Allocate(t.Context(), both("default", "default/new"))); got != "Unknown" {
		t.Errorf("got %s, want Unknown", got)
	}
}

// If NetBox fails in the middle, the server gives nothing back. So the answer to a repeated call
// stays right, whichever server gives it.
func TestPartialAllocationIsKeptWhenNetBoxFails(t *testing.T) {
	w, s := prod(t)
	w.SetFault(func(r *http.Request) netboxtest.Fault {
		if r.Method == http.MethodPost {
			w.away.Store(true) // for the next request
		}
		return netboxtest.None
	})
	if got := text(s.Allocate(t.Context(), both("default", "default/web"))); got != "Unknown" {
		t.Errorf("got %s, want Unknown", got)
	}
	w.away.Store(false)
	if held := w.held(); held != "192.0.2.1 prod:default/default/web/v4" {
		t.Errorf("NetBox holds %q", held)
	}
	w.SetFault(nil)
	if got := text(s.Allocate(t.Context(), both("default", "default/web"))); got != "192.0.2.1 2001:db8::10" {
		t.Errorf("the repeated call: %s", got)
	}
}

func TestReleaseFreesBothFamilies(t *testing.T) {
	w, s := prod(t)
	for _, pool := range []string{"default", "other"} {
		mustAllocate(t, s, both(pool, "default/web"))
	}
	if _, err := s.Release(t.Context(), everything("default/web")); err != nil {
		t.Fatal(err)
	}
	want := "192.0.2.2 prod:other/default/web/v4\n2001:db8::11 prod:other/default/web/v6"
	if diff := cmp.Diff(want, w.held()); diff != "" {
		t.Errorf("NetBox holds (-want +got):\n%s", diff)
	}
}

// An allocator with its own NetBox group releases the claims of its cluster that belong to no
// Service. A server in the same cluster may use the same cluster name.
func TestKeysDifferFromThoseOfAnAllocator(t *testing.T) {
	w, s := prod(t)
	mustAllocate(t, s, both("default", "default/web"))
	for _, a := range w.Addresses() {
		if key := a.Key(netbox.DefaultField); strings.HasPrefix(key, ipam.KeyPrefix("prod")) || ipam.HolderOf(key) != "default/web" {
			t.Errorf("the key is %s", key)
		}
	}
}

func TestStatsCountAddressesInNetBox(t *testing.T) {
	w := newWorld(t, netboxtest.V46)
	w.AddAddress(netboxtest.Address{Prefix: netip.MustParsePrefix("192.0.2.14/28"), VRF: "lb-vrf"})
	s := w.server("prod")
	mustAllocate(t, s, both("default", "default/web"))
	got, err := s.Stats(t.Context(), &ipamv1.StatsRequest{Pool: "default"})
	if err != nil {
		t.Fatal(err)
	}
	want := &ipamv1.StatsResponse{InUseV4: 2, InUseV6: 1, SizeV4: 14, SizeV6: 6, HasKnownCapacity: true,
		DisplayAddresses: []string{"192.0.2.0/28", "2001:db8::10-2001:db8::15"}}
	if diff := cmp.Diff(want.String(), got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The answer to a claim of a free address was lost. Then the user requests another address.
func TestPureLBReleasesSurplusAddresses(t *testing.T) {
	w := newWorld(t, netboxtest.V46)
	g := w.group(w.serve(w.server("prod")), "default")
	c := ipam.Claim{Key: "prod/default/web/default/v4", Family: addr.V4}
	if a := g.Claim(t.Context(), []ipam.Claim{c})[0]; a.Err != nil {
		t.Fatal(a.Err)
	}
	c.Address = netip.MustParseAddr("192.0.2.9")
	first := g.Claim(t.Context(), []ipam.Claim{c})[0]
	if first.Err == nil || len(first.Surplus) != 1 {
		t.Fatalf("got %+v, want the surplus address", first)
	}
	if err := g.Release(t.Context(), []ipam.Grant{{Key: c.Key, Address: first.Surplus[0]}})[0]; err != nil {
		t.Fatal(err)
	}
	if a := g.Claim(t.Context(), []ipam.Claim{c})[0]; a.Err != nil || a.Grant.Address != c.Address {
		t.Errorf("got %+v, want %s", a, c.Address)
	}
}

// NetBox completes a request whose client has gone. The following release undoes it.
func TestReleaseWaitsForTheAbandonedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, netboxtest.V46)
		s := w.server("prod")
		if _, err := s.Stats(t.Context(), &ipamv1.StatsRequest{Pool: "default"}); err != nil {
			t.Fatal(err)
		}
		finish := w.Hold()
		impatient, giveUp := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		calls.Go(func() { _, _ = s.Allocate(impatient, both("default", "default/web")) })
		synctest.Wait()
		giveUp()
		calls.Go(func() {
			if _, err := s.Release(t.Context(), everything("default/web")); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		finish()
		calls.Wait()
		if held := w.held(); held != "" {
			t.Errorf("NetBox holds\n%s", held)
		}
	})
}
