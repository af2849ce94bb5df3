package callers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// fakeReviews is an API server that knows one token.
type fakeReviews struct {
	authenticationclient.TokenReviewInterface
	asked int
}

func (f *fakeReviews) Create(_ context.Context, r *authenticationv1.TokenReview, _ metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	f.asked++
	if r.Spec.Token == "good" {
		r.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: r.Spec.Audiences, User: authenticationv1.UserInfo{Username: "prober"}}
	}
	return r, nil
}

// Strangers use up the limit of questions to the API server. A caller that was admitted before
// still gets an answer, because its source is known and has a limit of its own.
func TestStrangersDoNotKeepOutKnownSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reviews := &fakeReviews{}
		g := New(Options{Tokens: reviews, Account: "prober", Log: slog.New(slog.DiscardHandler)})
		api := netip.MustParseAddr("192.0.2.1")
		admit := func(from netip.Addr, token string) error { return g.Admit(t.Context(), from, token, "probe") }
		if err := admit(api, "good"); err != nil {
			t.Fatal(err)
		}
		flood := func(net int) {
			for i := range 1000 {
				_ = admit(netip.MustParseAddr(fmt.Sprintf("10.%d.%d.%d", net, i/250, i%250)), "bad")
			}
		}
		for net := range 10 {
			flood(net)
			time.Sleep(2 * time.Second)
			if err := admit(api, "good"); err != nil {
				t.Errorf("after flood %d: %v", net, err)
			}
		}
		if most := 25 + 5*20 + 11; reviews.asked > most {
			t.Errorf("the API server was asked %d times, want at most %d", reviews.asked, most)
		}
		time.Sleep(2 * remembered)
		flood(11)
		if err := admit(api, "good"); !errors.Is(err, ErrTooOften) {
			t.Errorf("a source that was admitted long ago is known: %v", err)
		}
	})
}

// A source is known only after a caller from there was admitted, and few sources are.
func TestOnlyAdmittedSourcesAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Options{Tokens: &fakeReviews{}, Account: "prober", Log: slog.New(slog.DiscardHandler)})
		for i := range 100 {
			from := netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", i))
			_ = g.Admit(t.Context(), from, "bad", "probe")
			time.Sleep(10 * time.Second)
			_ = g.Admit(t.Context(), netip.MustParseAddr(fmt.Sprintf("10.0.1.%d", i)), "good", "probe")
		}
		if len(g.admitted) != mostKnown {
			t.Errorf("%d sources are known, want %d", len(g.admitted), mostKnown)
		}
		if _, known := g.admitted["10.0.0.1/32"]; known {
			t.Error("a source that was never admitted is known")
		}
	})
}

// One source of strangers has few questions, and leaves those of the others.
func TestASourceHasALimitOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reviews := &fakeReviews{}
		g := New(Options{Tokens: reviews, Account: "prober", Log: slog.New(slog.DiscardHandler)})
		for i := range 1000 {
			_ = g.Admit(t.Context(), netip.MustParseAddr("10.0.0.1"), "bad", "probe")
			if i == 500 {
				time.Sleep(2 * time.Second)
			}
		}
		if reviews.asked != 12 {
			t.Errorf("the API server was asked %d times for one source, want 12", reviews.asked)
		}
		if err := g.Admit(t.Context(), netip.MustParseAddr("10.0.0.2"), "good", "probe"); err != nil {
			t.Errorf("another source: %v", err)
		}
		for i := range 10 * mostSources {
			_ = g.Admit(t.Context(), netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), "bad", "probe")
		}
		if len(g.sources) > mostSources {
			t.Errorf("%d sources are remembered, want %d at most", len(g.sources), mostSources)
		}
	})
}
