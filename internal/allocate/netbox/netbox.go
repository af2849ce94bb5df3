// Package netbox is the driver for NetBox, which manages addresses for groups of
// Services. It knows NetBox's REST API from 3.6.4 on, and two ways to get addresses:
// creating them in a prefix or IP range, or taking addresses that an
// operator has created with the status "reserved".
//
// A Client is a server with a token. Several groups share it, because it sends one request at a
// time. A Pool is a group of addresses on the server. Client.Prepare makes it. A claim does not
// change the state of a Pool, because NetBox stores the claims.
//
// A claim is found by its key, which NetBox stores in a custom field with unique
// values. So a claim can be repeated, whatever happened to it:
//
//	look for the key    found: it is granted
//	claim on the server NetBox chooses the address and stores the key with it
//	no answer           unknown: the caller repeats the claim, and looks first
//
// NetBox finishes a request whose client has gone, and may commit a request that it
// answers with an error. So this package relies only on what an answer proves.
//
// Read client.go (one request), judge.go (what a reply means), prepare.go, claim.go,
// allocate.go, named.go, reserved.go, release.go and report.go, in this order.
package netbox

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"purelb.io/purelb/internal/allocate/ipam"
)

const (
	// defaultTimeout is how long one request may take. The first request of each worker process of
	// NetBox takes 5 s, and a request also waits for other requests.
	defaultTimeout = 20 * time.Second
	// defaultRate is how many requests are sent per second. NetBox has no limit of its
	// own. A claim takes two requests, and a fast server answers about 20 claims per second.
	defaultRate = 40
	// idleTimeout is shorter than that of gunicorn, NetBox's usual server, which closes
	// idle connections after 2 s.
	idleTimeout = 1500 * time.Millisecond
)

// Config is a NetBox server and how to talk to it.
type Config struct {
	// URL is the URL of the server, such as "https://netbox.example.com/".
	URL string
	// Token is an API token of version 1 or 2.
	Token string
	// CA has certificates in PEM to trust in addition to those of the system.
	CA []byte
	// Timeout limits one request. Default: 20 s.
	Timeout time.Duration
	// Rate is the maximum number of requests per second. Default: 40.
	Rate int
	// Transport carries requests. Default: TCP, through the proxy in the environment.
	Transport http.RoundTripper
	// Observe is called with each request and its outcome. Default: nothing.
	Observe func(Exchange)
}

// Exchange is one request and its outcome, for metrics.
type Exchange struct {
	// Call is the purpose of the request: "status", "look", "claim", "release" and so
	// on.
	Call string
	// Status is the HTTP status of the reply, 0 if there was none.
	Status int
	// Duration is the time from sending to the whole reply.
	Duration time.Duration
}

// New returns a client of the server that cfg describes. It sends nothing.
func New(cfg Config) (*Client, error) {
	base, err := baseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	header, err := authorization(cfg.Token)
	if err != nil {
		return nil, err
	}
	if cfg.Transport == nil {
		if cfg.Transport, err = transport(cfg.CA); err != nil {
			return nil, err
		}
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Rate == 0 {
		cfg.Rate = defaultRate
	}
	return &Client{
		cfg:           cfg,
		base:          base,
		authorization: header,
		http:          &http.Client{Transport: cfg.Transport, CheckRedirect: stopAtRedirect},
		turn:          newTurn(time.Second / time.Duration(cfg.Rate)),
	}, nil
}

// stopAtRedirect returns a redirect to the caller. The token must not go to the target
// of a redirect. And a POST would become a GET, which claims nothing and succeeds.
func stopAtRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// baseURL returns raw with a slash at its end. Documents of earlier versions also wrote
// the URL with "/api" at the end.
func baseURL(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", misconfigured("%q is not the URL of a NetBox server: write it as https://netbox.example.com/", redactURL(raw))
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", misconfigured("the URL %s of the NetBox server has a user, a query or a fragment: remove it; put the token into the Secret", redactURL(raw))
	}
	path := strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), "/api")
	u.Path, u.RawPath = path+"/", ""
	return u.String(), nil
}

// redactURL returns raw without parts that may be secret.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not shown)"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// authorization returns the header for a token. Tokens of version 2 have the prefix
// nbt_; NetBox knows them from 4.5 on.
func authorization(token string) (string, error) {
	token = strings.TrimSpace(token)
	if token == "" {
		return "", misconfigured("there is no token for NetBox: put one into the Secret")
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", misconfigured("the token for NetBox has blanks or characters that no token has: put the token alone into the Secret")
	}
	if strings.HasPrefix(token, "nbt_") {
		return "Bearer " + token, nil
	}
	return "Token " + token, nil
}

// transport returns a transport that trusts ca in addition to the system.
func transport(ca []byte) (http.RoundTripper, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.IdleConnTimeout = idleTimeout
	t.MaxIdleConnsPerHost = 1
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) == 0 {
		return t, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(ca) {
		return nil, misconfigured("the CA certificates for NetBox hold no certificate in PEM format")
	}
	t.TLSClientConfig.RootCAs = pool
	return t, nil
}

func misconfigured(format string, args ...any) *ipam.Error {
	return &ipam.Error{Kind: ipam.KindMisconfigured, Message: fmt.Sprintf(format, args...)}
}
