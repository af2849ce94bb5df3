package ipamserver

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ipamv1 "purelb.io/purelb/api/ipam/v1"
	"purelb.io/purelb/internal/netbox"
	"purelb.io/purelb/internal/testing/netboxtest"
)

func failDeletes(r *http.Request) netboxtest.Fault {
	if r.Method == http.MethodDelete {
		return netboxtest.FailBefore
	}
	return netboxtest.None
}

func TestNetBoxMayBeAwayAtTheStartAndLater(t *testing.T) {
	w := newWorld(t, netboxtest.V46)
	w.away.Store(true)
	s := w.server("prod")
	for range 2 {
		if got := text(s.Allocate(t.Context(), both("default", "default/web"))); got != "Unavailable" {
			t.Errorf("while NetBox is away: %s", got)
		}
		if _, err := s.Release(t.Context(), everything("default/web")); status.Code(err) != codes.Unavailable {
			t.Errorf("while NetBox is away: %v", err)
		}
		if _, err := s.Stats(t.Context(), &ipamv1.StatsRequest{Pool: "default"}); status.Code(err) != codes.Unavailable {
			t.Errorf("while NetBox is away: %v", err)
		}
		w.away.Store(false)
		if got := text(s.Allocate(t.Context(), both("default", "default/web"))); got != "192.0.2.1 2001:db8::10" {
			t.Errorf("after NetBox came back: %s", got)
		}
		w.away.Store(true)
	}
}

func TestANewTokenIsReadWithoutARestart(t *testing.T) {
	w := newWorld(t, netboxtest.V46)
	w.token("00000000000000000000000000000000deadbeef")
	s := w.server("prod")
	_, err := s.Allocate(t.Context(), both("default", "default/web"))
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(status.Convert(err).Message(), "the token is wrong") {
		t.Errorf("with a wrong token: %v", err)
	}
	for _, token := range []string{netboxtest.AdminToken, "nbt_0123456789ab.0123456789abcdef0123456789abcdef01234567"} {
		w.SetToken(token, netboxtest.Token{})
		w.token(token)
		if got := text(s.Allocate(t.Context(), both("default", "default/web"))); got != "192.0.2.1 2001:db8::10" {
			t.Errorf("with a new token: %s", got)
		}
	}
	w.SetToken("nbt_0123456789ab.0123456789abcdef0123456789abcdef01234567", netboxtest.Token{Expired: true})
	if _, err := s.Release(t.Context(), everything("default/web")); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("with an expired token: %v", err)
	}
}

func TestPoolIsPreparedAgainAfterAChangeOfNetBox(t *testing.T) {
	w, s := prod(t)
	mustAllocate(t, s, both("default", "default/web"))
	w.Strict = false // the schema has no filter for a removed field
	w.RemoveField(netbox.DefaultField)
	if got := text(s.Allocate(t.Context(), both("default", "default/other"))); got != "FailedPrecondition" {
		t.Errorf("without the field: %s", got)
	}
	// The driver makes the field again, and starts without claims.
	if got := text(s.Allocate(t.Context(), both("default", "default/other"))); got != "192.0.2.2 2001:db8::11" {
		t.Errorf("afterwards: %s", got)
	}
}

func TestAFieldWithoutUniqueValuesIsRefused(t *testing.T) {
	w := newWorld(t, netboxtest.V46)
	w.RemoveField(netbox.DefaultField)
	w.AddField(netboxtest.CustomField{Name: netbox.DefaultField})
	_, err := w.server("prod").Allocate(t.Context(), both("default", "default/web"))
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(status.Convert(err).Message(), "set unique for the field") {
		t.Errorf("got %v", err)
	}
	if held := w.held(); held != "" {
		t.Errorf("NetBox holds\n%s", held)
	}
}
