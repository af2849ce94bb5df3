package netbox

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/config"
)

// FuzzReplies feeds the driver any reply of a server. No reply makes it panic. Each error
// says what happened. Only a success with JSON gives no error.
func FuzzReplies(f *testing.F) {
	f.Add(200, "application/json", []byte(`{"count":1,"next":null,"results":[{"id":1,"address":"192.0.2.1/28","custom_fields":{"purelb_claim":"a/b/c/default/v4"}}]}`))
	f.Add(201, "application/json", []byte(`[{"id":1,"address":"2001:db8::1/64","status":{"value":"active"}}]`))
	f.Add(400, "application/json", []byte(`[{},{"role":["nope is not a valid choice."]}]`))
	f.Add(400, "application/json", []byte(`{"detail":"x","errors":[{"index":1e300,"errors":{"a":[{"b":null}]}},{"index":-1}]}`))
	f.Add(403, "application/json", []byte(`{"detail":["Invalid token"]}`))
	f.Add(500, "text/html; charset=utf-8", []byte(`<html>`))
	f.Fuzz(func(t *testing.T, status int, mediaType string, body []byte) {
		r := reply{status: status, header: http.Header{"Content-Type": {mediaType}}, body: body}
		for _, what := range []call{{method: http.MethodGet}, {method: http.MethodPost, name: callClaim}} {
			checkReply(t, what, r)
		}
	})
}

func checkReply(t *testing.T, what call, r reply) {
	kinds := []ipam.Kind{ipam.KindExhausted, ipam.KindTaken, ipam.KindInvalid, ipam.KindMisconfigured, ipam.KindUnavailable, ipam.KindUnknown}
	e := judge(what, r, time.Unix(0, 0))
	switch {
	case e == nil && r.status != http.StatusNoContent && (r.status >= 300 || !r.isJSON()):
		t.Fatalf("the driver accepts HTTP %d %s as a success", r.status, r.mediaType())
	case e != nil && (e.Message == "" || !slices.Contains(kinds, e.Kind)):
		t.Fatalf("kind %q, message %q", e.Kind, e.Message)
	}
	if e != nil {
		said := refused(e).complaints
		said.have(complaint.notUnique)
	}
	var p page[address]
	if decode(what, r, &p) == nil && p.Results != nil {
		for _, a := range *p.Results {
			keyField(config.NetBoxField).of(a)
			parent{}.has(a)
		}
	}
	var b block
	if decode(what, r, &b) == nil {
		for _, kind := range []kind{kindPrefix, kindRange} {
			if in, err := readParent(kind, b); err == nil {
				in.size()
				in.cover()
			}
		}
	}
	var made address
	if decode(what, r, &made) == nil {
		made.ip()
	}
}
