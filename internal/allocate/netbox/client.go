package netbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"purelb.io/purelb/internal/allocate/ipam"
)

// largestReply limits how much of a reply is read. A page of 1,000 addresses has 1 MB.
const largestReply = 16 << 20

// Client talks to one NetBox server, with one request at a time. The server has one lock for all
// claims. Requests that wait for the lock delay all other requests.
type Client struct {
	cfg                 Config
	base, authorization string
	http                *http.Client
	turn                *turn
	// taking lets only one group at a time look for a reserved address and take it. Before 4.6,
	// NetBox does not prevent two clients from taking the same address.
	taking sync.Mutex
}

// callClaim is the name of a call that asks for an address.
const callClaim = "claim"

// call is a request to NetBox.
type call struct {
	// name is the name of the call in metrics.
	name   string
	method string
	// path is the path below api/. It ends in a slash, because NetBox redirects a path without one.
	path  string
	query url.Values
	body  any
	// ifMatch is the ETag that the object must still have; "" means any.
	ifMatch string
	// what describes the call and its object for users: "claim 2 addresses of prefix 192.0.2.0/24".
	what string
}

// writes reports whether c may change something.
func (c call) writes() bool { return c.method != http.MethodGet }

// reply is the answer of NetBox.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// do sends c and decodes the reply into out, if out is not nil. Its error is an
// *ipam.Error.
func (c *Client) do(ctx context.Context, what call, out any) (reply, error) {
	if err := c.turn.wait(ctx); err != nil {
		return reply{}, c.report(&ipam.Error{Kind: ipam.KindUnavailable, Cause: err,
			Message: c.about(what, "not sent, for there was no time left: requests before it took all of it")})
	}
	sent := time.Now()
	defer c.turn.done(sent)
	r, failure := c.exchange(ctx, what)
	if failure == nil {
		failure = judge(what, r, time.Now())
	}
	if failure == nil && out != nil {
		failure = decode(what, r, out)
	}
	if c.cfg.Observe != nil {
		c.cfg.Observe(Exchange{Call: what.name, Status: r.status, Duration: time.Since(sent)})
	}
	if failure == nil {
		return r, nil
	}
	failure.Message = c.about(what, failure.Message)
	return r, c.report(failure)
}

// about returns the attempted call and its server, as the beginning of an error.
func (c *Client) about(what call, happened string) string {
	return fmt.Sprintf("%s in NetBox at %s: %s", what.what, c.base, happened)
}

// report removes the token from the error, because a server may echo it.
func (c *Client) report(e *ipam.Error) *ipam.Error {
	_, secret, _ := strings.Cut(c.authorization, " ")
	e.Message = strings.ReplaceAll(e.Message, secret, "(token)")
	return e
}

// exchange sends the request and reads the whole reply.
func (c *Client) exchange(ctx context.Context, what call) (reply, *ipam.Error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	req, err := c.request(ctx, what)
	if err != nil {
		return reply{}, &ipam.Error{Kind: ipam.KindInvalid, Message: "cannot make the request: " + err.Error(), Cause: err}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return reply{}, broken(what, err)
	}
	defer resp.Body.Close()
	r := reply{status: resp.StatusCode, header: resp.Header}
	r.body, err = io.ReadAll(io.LimitReader(resp.Body, largestReply+1))
	switch {
	case err != nil:
		return r, broken(what, fmt.Errorf("HTTP %d, the reply ends too early: %w", r.status, err))
	case len(r.body) > largestReply:
		return r, broken(what, errors.New("the reply has more than 16 MB"))
	}
	return r, nil
}

// request makes the HTTP request. A body has a length, because NetBox ignores a chunked
// body and then claims an address without a key.
func (c *Client) request(ctx context.Context, what call) (*http.Request, error) {
	target := c.base + "api/" + what.path
	if len(what.query) > 0 {
		target += "?" + what.query.Encode()
	}
	var body io.Reader = http.NoBody
	if what.body != nil {
		text, err := json.Marshal(what.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, what.method, target, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", c.authorization)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "purelb")
	if what.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if what.ifMatch != "" {
		req.Header.Set("If-Match", what.ifMatch)
	}
	return req, nil
}

// decode reads a reply. If it cannot, the outcome of the request is unknown.
func decode(what call, r reply, out any) *ipam.Error {
	err := json.Unmarshal(r.body, out)
	if err == nil {
		return nil
	}
	return &ipam.Error{
		Kind:    outcome(what, ipam.KindUnavailable),
		Message: fmt.Sprintf("HTTP %d, but the reply is not the JSON that NetBox sends (%v): if this lasts, check what lies between here and NetBox", r.status, err),
		Cause:   err,
	}
}

// outcome returns the kind of an error that does not tell whether the request was
// performed. A request that only reads changes nothing.
func outcome(what call, read ipam.Kind) ipam.Kind {
	if what.writes() {
		return ipam.KindUnknown
	}
	return read
}
