package netbox

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"purelb.io/purelb/internal/allocate/ipam"
)

// refusal is the answer of NetBox that caused an error.
type refusal struct {
	status     int
	complaints complaints
}

func (r *refusal) Error() string { return fmt.Sprintf("HTTP %d", r.status) }

// refused returns the refusal of NetBox in err. Its status is 0 if err is not a refusal
// of NetBox.
func refused(err error) refusal {
	var r *refusal
	if errors.As(err, &r) {
		return *r
	}
	return refusal{}
}

// broken judges a request without a complete reply. It is certain that NetBox did not get the
// request only if the connection was never made.
func broken(what call, err error) *ipam.Error {
	var (
		op   *net.OpError
		dns  *net.DNSError
		cert *tls.CertificateVerificationError
		tls  tls.RecordHeaderError // the server does not speak TLS
	)
	cause := err
	if u := (*url.Error)(nil); errors.As(err, &u) {
		cause = u.Err // without the URL, which the message has already
	}
	text := localEnd.ReplaceAllString(cause.Error(), "")
	switch {
	case errors.As(err, &cert):
		return &ipam.Error{Kind: ipam.KindMisconfigured, Cause: err,
			Message: fmt.Sprintf("the certificate is not trusted (%v): renew it, give the CA of the server, or use the name that its certificate has", distrust(cert.Err))}
	case errors.As(err, &tls), errors.Is(err, http.ErrSchemeMismatch):
		return &ipam.Error{Kind: ipam.KindMisconfigured, Cause: err,
			Message: "the server does not speak TLS: use http:// in the URL, or the port that speaks TLS"}
	case errors.As(err, &dns), errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect"):
		return &ipam.Error{Kind: ipam.KindUnavailable, Cause: err,
			Message: fmt.Sprintf("no connection (%v): check that the server runs, that its name is right, and that no firewall is in the way", text)}
	case errors.Is(err, context.DeadlineExceeded):
		return &ipam.Error{Kind: outcome(what, ipam.KindUnavailable), Cause: err,
			Message: "no answer in time; NetBox may still carry it out: it is tried again"}
	default:
		return &ipam.Error{Kind: outcome(what, ipam.KindUnavailable), Cause: err,
			Message: fmt.Sprintf("the connection broke before the answer was complete (%v): it is tried again", text)}
	}
}

// localEnd matches the local end of a connection in the text of an error. Its port differs in each
// attempt. Without it, the same fault has the same text, and the Services that wait for it are not
// written again.
var localEnd = regexp.MustCompile(`\S+->`)

// distrust returns the text of an error of a certificate, without the current time.
func distrust(err error) string {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil {
		return fmt.Sprintf("it is valid from %s to %s, and not now", invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	}
	return err.Error()
}

// judge explains a reply. It returns nil for a success with JSON, or without a body.
func judge(what call, r reply, now time.Time) *ipam.Error {
	isJSON := r.isJSON()
	text := r.detail()
	e := &ipam.Error{Cause: &refusal{status: r.status}, RetryAfter: retryAfter(r.header, now)}
	say := func(kind ipam.Kind, format string, args ...any) *ipam.Error {
		e.Kind = kind
		e.Message = strings.TrimSpace(fmt.Sprintf("HTTP %d %s", r.status, text)) + ": " + fmt.Sprintf(format, args...)
		return e
	}
	switch {
	case r.status == http.StatusNoContent:
		return nil
	case r.status < 300 && !isJSON:
		return say(outcome(what, ipam.KindMisconfigured), "the answer is not JSON, but %s: check that the URL is that of NetBox, and that no login page lies before it", r.mediaType())
	case r.status < 300:
		return nil
	case r.status < 400:
		return say(ipam.KindMisconfigured, "a redirect to %s, which is not followed: give the URL where NetBox itself answers (https, and the path if it has one)", redactURL(r.header.Get("Location")))
	case r.status >= 500:
		return judgeFailure(what, text, say)
	case r.status == http.StatusBadRequest && isJSON:
		list := readComplaints(r.body)
		e.Cause = &refusal{status: r.status, complaints: list}
		text = list.String()
		return say(list.kind(), "%s", list.cure())
	default:
		return judgeStatus(what, r, text, isJSON, say)
	}
}

// judgeFailure judges a 5xx. NetBox may have committed before it failed. Only a
// database that refuses writes proves that nothing was done.
func judgeFailure(what call, text string, say func(ipam.Kind, string, ...any) *ipam.Error) *ipam.Error {
	lower := strings.ToLower(text)
	if strings.Contains(lower, "maintenance mode") || strings.Contains(lower, "read-only transaction") {
		return say(ipam.KindUnavailable, "NetBox is in maintenance or its database is read-only: it is tried again")
	}
	return say(outcome(what, ipam.KindUnavailable), "NetBox, or a proxy before it, failed: it is tried again; the log of NetBox says why")
}

// judgeStatus judges the other refusals.
func judgeStatus(what call, r reply, text string, isJSON bool, say func(ipam.Kind, string, ...any) *ipam.Error) *ipam.Error {
	switch r.status {
	case http.StatusBadRequest:
		return say(ipam.KindMisconfigured, "not an answer of the API: add the name in the URL to NetBox's ALLOWED_HOSTS, or check the proxy before it")
	case http.StatusUnauthorized, http.StatusForbidden:
		return say(ipam.KindMisconfigured, "%s", cureOf403(what, text, isJSON))
	case http.StatusNotFound:
		if !isJSON {
			return say(ipam.KindMisconfigured, "NetBox has no such path: check the URL")
		}
		return say(ipam.KindMisconfigured, "it is not there, or the token may not see or change it: check the id and the permissions of the token's user")
	case http.StatusProxyAuthRequired:
		return say(ipam.KindMisconfigured, "the HTTP proxy wants a password: check the proxy variables of the allocator")
	case http.StatusRequestTimeout:
		return say(outcome(what, ipam.KindUnavailable), "it is tried again")
	case http.StatusConflict:
		if what.name == callClaim {
			return say(ipam.KindExhausted, "no address is free: release some, or give the group a larger prefix")
		}
		return say(ipam.KindMisconfigured, "the object is in use")
	case http.StatusPreconditionFailed:
		return say(ipam.KindTaken, "another client of NetBox changed the address at the same time")
	case http.StatusTooManyRequests:
		return say(ipam.KindUnavailable, "too many requests, says a proxy before NetBox: it is tried again later")
	default:
		return say(ipam.KindMisconfigured, "NetBox, or a proxy before it, does not take the request: check the URL and the version of NetBox")
	}
}

// cures403 say how to correct the cause of a 403. NetBox uses this status for several causes,
// which differ in their text.
var cures403 = []struct{ says, cure string }{
	{"expired", "the token has expired: make a new one in NetBox and put it into the Secret"},
	{"disabled", "the token is disabled: enable it in NetBox"},
	{"inactive", "the token's user is not active: make the user active in NetBox"},
	{"source ip", "the token does not allow this source address: add the address of the node, or of the proxy, to the token's allowed IPs"},
	{"not provided", "NetBox saw no token: a token that begins with nbt_ needs NetBox 4.5; otherwise a proxy removes the header Authorization"},
	{"invalid", "the token is wrong: put a valid token of this NetBox into the Secret"},
	{"credentials", "the token is wrong: put a valid token of this NetBox into the Secret"},
}

func cureOf403(what call, text string, isJSON bool) string {
	if !isJSON {
		return "not an answer of NetBox: a proxy or firewall before it refuses the request"
	}
	for _, c := range cures403 {
		if strings.Contains(strings.ToLower(text), c.says) {
			return c.cure
		}
	}
	if what.writes() {
		return "the token is read-only (allow writing), or its user lacks the permission to add, change or delete such an object, or a constraint of the permission excludes this one"
	}
	return "the token's user lacks the permission to view this"
}

func (r reply) mediaType() string {
	kind, _, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	if err != nil {
		return "of no media type"
	}
	return kind
}

func (r reply) isJSON() bool {
	kind := r.mediaType()
	return kind == "application/json" || strings.HasSuffix(kind, "+json")
}

// detail returns NetBox's message about an error, in brackets. It returns "" if there is none, as
// in a page of HTML.
func (r reply) detail() string {
	if !r.isJSON() || r.status < 300 {
		return ""
	}
	var said struct {
		Detail any    `json:"detail"`
		Error  string `json:"error"`
	}
	if err := json.Unmarshal(r.body, &said); err != nil {
		return ""
	}
	text := said.Error
	if said.Detail != nil {
		text = fmt.Sprint(said.Detail)
	}
	if text == "" {
		return ""
	}
	return "(" + short(text) + ")"
}

// short cuts a text from outside, and removes its line breaks.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 200 {
		return string(runes[:200]) + "..."
	}
	return text
}
