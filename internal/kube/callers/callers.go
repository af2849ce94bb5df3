// Package callers decides who may send requests to a program of PureLB over HTTP. It asks the API
// server for the owner of each token (TokenReview), and admits one account. It limits how often
// callers can cause such a review.
//
// It does not know what callers ask for.
package callers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/util/flowcontrol"
)

// The reasons to refuse a caller. Any other error means that the token could not be checked.
var (
	ErrUnknown   = errors.New("the token is missing, expired, or not for this request")
	ErrForbidden = errors.New("the caller has no right to ask")
	ErrTooOften  = errors.New("too many requests; try again in a few seconds")
)

// Options are what a Gate needs.
type Options struct {
	Tokens authenticationclient.TokenReviewInterface
	// Account is the user name of the account that may ask.
	Account string
	Log     *slog.Logger
}

// Gate admits callers. It is safe for concurrent use.
type Gate struct {
	Options

	mu sync.Mutex
	// all and sources limit the reviews. known is a separate limit for sources with a recently
	// admitted caller, so that other callers cannot use it up. answers limits the admitted
	// callers.
	all, known, answers flowcontrol.PassiveRateLimiter
	sources             map[string]flowcontrol.PassiveRateLimiter
	// admitted is when a caller from each source was admitted last.
	admitted map[string]time.Time
	// refusals limits the log entries. silenced counts the omitted ones.
	refusals flowcontrol.PassiveRateLimiter
	silenced int
}

// New returns a Gate.
func New(o Options) *Gate {
	limit := flowcontrol.NewTokenBucketPassiveRateLimiter // so many in a second, and so many at once
	return &Gate{
		Options:  o,
		all:      limit(5, 25),
		known:    limit(5, 25),
		admitted: map[string]time.Time{},
		sources:  map[string]flowcontrol.PassiveRateLimiter{},
		answers:  limit(1, 5),
		refusals: limit(1./60, 5),
	}
}

// Admit returns nil if token is valid for audience and belongs to the account that may ask. source
// is the address that the request came from.
func (g *Gate) Admit(ctx context.Context, source netip.Addr, token, audience string) error {
	user, err := g.admit(ctx, source, token, audience)
	if err != nil {
		g.log(ctx, source, user, err)
	}
	return err
}

// admit also returns the user of the token, if that is known.
func (g *Gate) admit(ctx context.Context, source netip.Addr, token, audience string) (user string, err error) {
	if token == "" {
		return "", ErrUnknown
	}
	if !g.mayAsk(network(source)) {
		return "", ErrTooOften
	}
	user, err = g.whose(ctx, token, audience)
	switch {
	case err != nil:
		return "", err
	case user != g.Account:
		return user, fmt.Errorf("%w: only %s may", ErrForbidden, g.Account)
	case !g.answer(network(source)):
		return user, ErrTooOften
	}
	return user, nil
}

const (
	// remembered is how long a source is known after its last caller was admitted.
	remembered = time.Hour
	// mostKnown is how many sources are known at a time. Requests come through the few API
	// servers.
	mostKnown = 16
	// mostSources is how many sources have a limit of their own at a time. The limit of all holds anyway.
	mostSources = 256
)

// mayAsk reports whether the API server may be asked about a token from source.
func (g *Gate) mayAsk(source string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if last, ok := g.admitted[source]; ok && time.Since(last) < remembered {
		return g.known.TryAccept()
	}
	if g.sources[source] == nil {
		if len(g.sources) >= mostSources {
			clear(g.sources)
		}
		g.sources[source] = flowcontrol.NewTokenBucketPassiveRateLimiter(1, 10)
	}
	return g.sources[source].TryAccept() && g.all.TryAccept()
}

// answer reports whether an admitted caller from source may have an answer now. It makes the
// source a known one.
func (g *Gate) answer(source string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.admitted, func(_ string, last time.Time) bool { return time.Since(last) >= remembered })
	if _, ok := g.admitted[source]; ok || len(g.admitted) < mostKnown {
		g.admitted[source] = time.Now()
	}
	return g.answers.TryAccept()
}

// network returns the key of the limit for source. One machine may use all IPv6 addresses of its
// network.
func network(source netip.Addr) string {
	bits := 64
	if source = source.Unmap().WithZone(""); source.Is4() {
		bits = 32
	}
	p, _ := source.Prefix(bits) // It fails only for the zero Addr, whose text is as good a key.
	return p.String()
}

// whose asks the API server who owns the token.
func (g *Gate) whose(ctx context.Context, token, audience string) (user string, err error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}}}
	review, err = g.Tokens.Create(ctx, review, metav1.CreateOptions{})
	switch {
	case err != nil:
		return "", fmt.Errorf("ask the API server whose token it is: %w", err)
	case !review.Status.Authenticated || !slices.Contains(review.Status.Audiences, audience):
		// A server that returns no audiences does not check them.
		return "", ErrUnknown
	}
	return review.Status.User.Username, nil
}

// log logs a refusal, unless there were many.
func (g *Gate) log(ctx context.Context, source netip.Addr, user string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.refusals.TryAccept() {
		g.silenced++
		return
	}
	g.Log.WarnContext(ctx, "callerRefused", "from", source, "user", user, "reason", err, "unsaid", g.silenced)
	g.silenced = 0
}
