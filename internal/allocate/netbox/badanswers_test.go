package netbox_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
	"purelb.io/purelb/internal/allocate/netbox"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// answer writes one answer of a server.
type answer func(w http.ResponseWriter, r *http.Request)

func says(status int, mediaType, body string, header ...string) answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func jsonAnswer(status int, body string, header ...string) answer {
	return says(status, "application/json", body, header...)
}

func htmlAnswer(status int, header ...string) answer {
	return says(status, "text/html; charset=utf-8", "<html><title>Error</title></html>", header...)
}

func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// step is one request of a driver, and the way in which the test reaches it.
type step struct {
	name string
	is   func(r *http.Request) bool
	do   func(b *memoryNetBox, c *netbox.Client) error
}

func path(method, part string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == method && strings.Contains(r.URL.Path, part) }
}

func list(part string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, part) }
}

var (
	preparing = step{"prepare", list("/status/"), func(b *memoryNetBox, c *netbox.Client) error {
		_, err := c.Prepare(b.t.Context(), b.group)
		return err
	}}
	looking  = step{"look", list("/ip-addresses/"), claimOne}
	claiming = step{"claim", path(http.MethodPost, "/available-ips/"), claimOne}
	ranging  = step{"range", path(http.MethodPost, "/ip-ranges/1/available-ips/"), func(b *memoryNetBox, c *netbox.Client) error {
		return b.prepared(c).Claim(b.t.Context(), []ipam.Claim{claimOf("web", addr.V6)})[0].Err
	}}
	naming    = step{"named", path(http.MethodPost, "/ip-addresses/"), claimNamed}
	releasing = step{"release", path(http.MethodDelete, "/ip-addresses/"), releaseOne}
	sweeping  = step{"sweep", list("/ip-addresses/"), func(b *memoryNetBox, c *netbox.Client) error {
		_, err := b.prepared(c).Grants(b.t.Context())
		return err
	}}
	counting = step{"capacity", list("/ip-addresses/"), func(b *memoryNetBox, c *netbox.Client) error {
		_, err := b.prepared(c).Capacity(b.t.Context())
		return err
	}}
)

func (b *memoryNetBox) prepared(c *netbox.Client) *netbox.Pool {
	b.t.Helper()
	p, err := c.Prepare(b.t.Context(), b.group)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// claimOf returns the claim of a Service, for a family or an address.
func claimOf(service string, of any) ipam.Claim {
	c := ipam.Claim{Group: "default", Service: "default/" + service}
	switch of := of.(type) {
	case addr.Family:
		c.Family = of
	case string:
		c.Address = netip.MustParseAddr(of)
		c.Family = addr.FamilyOf(c.Address)
	}
	c.Key = ipam.KeyOf("ipamtest", c)
	return c
}

func claimOne(b *memoryNetBox, c *netbox.Client) error {
	return b.prepared(c).Claim(b.t.Context(), []ipam.Claim{claimOf("web", addr.V4)})[0].Err
}

func claimNamed(b *memoryNetBox, c *netbox.Client) error {
	return b.prepared(c).Claim(b.t.Context(), []ipam.Claim{claimOf("web", "192.0.2.5")})[0].Err
}

func releaseOne(b *memoryNetBox, c *netbox.Client) error {
	p := b.prepared(c)
	a := p.Claim(b.t.Context(), []ipam.Claim{claimOf("web", addr.V4)})[0]
	if a.Err != nil {
		b.t.Fatal(a.Err)
	}
	return p.Release(b.t.Context(), []ipam.Grant{a.Grant})[0]
}

// badAnswers are answers that NetBox or a proxy in front of it may give. Those of NetBox were
// recorded.
var badAnswers = []struct {
	name   string
	on     step
	answer answer
	kind   ipam.Kind
	says   string
}{
	{"wrong token", preparing, jsonAnswer(403, `{"detail":"Invalid token"}`), ipam.KindMisconfigured, "put a valid token"},
	{"wrong v2 token", preparing, jsonAnswer(403, `{"detail":"Invalid v2 token"}`), ipam.KindMisconfigured, "put a valid token"},
	{"malformed token", preparing, jsonAnswer(403, `{"detail":"Invalid token header. No credentials provided."}`), ipam.KindMisconfigured, "put a valid token"},
	{"no token seen", preparing, jsonAnswer(403, `{"detail":"Authentication credentials were not provided."}`), ipam.KindMisconfigured, "needs NetBox 4.5"},
	{"expired token", preparing, jsonAnswer(403, `{"detail":"Token expired"}`), ipam.KindMisconfigured, "has expired"},
	{"disabled token", preparing, jsonAnswer(403, `{"detail":"Token disabled"}`), ipam.KindMisconfigured, "enable it"},
	{"inactive user", preparing, jsonAnswer(403, `{"detail":"User inactive"}`), ipam.KindMisconfigured, "make the user active"},
	{"other source address", preparing, jsonAnswer(403, `{"detail":"Source IP 10.0.0.1 is not permitted to authenticate using this token."}`), ipam.KindMisconfigured, "allowed IPs"},
	{"unauthorized", preparing, jsonAnswer(401, `{"detail":"Invalid token"}`), ipam.KindMisconfigured, "put a valid token"},
	{"firewall", preparing, htmlAnswer(403), ipam.KindMisconfigured, "proxy or firewall"},
	{"wrong host", preparing, htmlAnswer(400), ipam.KindMisconfigured, "ALLOWED_HOSTS"},
	{"wrong path", preparing, htmlAnswer(404), ipam.KindMisconfigured, "no such path"},
	{"login page", preparing, htmlAnswer(200), ipam.KindMisconfigured, "not JSON, but text/html"},
	{"no media type", preparing, says(200, "", `{}`), ipam.KindMisconfigured, "no media type"},
	{"redirect to a login page", preparing, htmlAnswer(302, "Location", "https://sso.example/login?next=secret"), ipam.KindMisconfigured, "redirect to https://sso.example/login,"},
	{"redirect to https", preparing, htmlAnswer(308, "Location", "https://netbox.example/api/status/"), ipam.KindMisconfigured, "not followed"},
	{"no version", preparing, jsonAnswer(200, `{"netbox-version":""}`), ipam.KindUnavailable, "not a version"},
	{"a list for an object", preparing, jsonAnswer(200, `[]`), ipam.KindUnavailable, "not the JSON"},
	{"not acceptable", preparing, jsonAnswer(406, `{"detail":"Could not satisfy the request Accept header."}`), ipam.KindMisconfigured, "check the URL and the version"},
	{"proxy password", preparing, htmlAnswer(407), ipam.KindMisconfigured, "proxy variables"},
	{"database away", preparing, jsonAnswer(500, `{"error":"the connection is closed","exception":"OperationalError","netbox_version":"4.4.10"}`), ipam.KindUnavailable, "the connection is closed"},
	{"bad gateway", preparing, htmlAnswer(502), ipam.KindUnavailable, "HTTP 502"},
	{"unavailable with delay", preparing, htmlAnswer(503, "Retry-After", "120"), ipam.KindUnavailable, "HTTP 503"},
	{"broken connection", preparing, breaks, ipam.KindUnavailable, "connection broke"},

	{"missing right to view", looking, jsonAnswer(403, `{"detail":"You do not have permission to perform this action."}`), ipam.KindMisconfigured, "permission to view"},
	{"broken JSON", looking, jsonAnswer(200, `{"count":1,"results":[{"id":`), ipam.KindUnavailable, "not the JSON"},
	{"no results", looking, jsonAnswer(200, `{"count":0}`), ipam.KindUnavailable, "no results"},
	{"null", looking, jsonAnswer(200, `null`), ipam.KindUnavailable, "no results"},
	{"empty body", looking, jsonAnswer(200, ``), ipam.KindUnavailable, "not the JSON"},
	{"unknown filter value", looking, jsonAnswer(400, `{"tag":["Select a valid choice. x is not one of the available choices."]}`), ipam.KindMisconfigured, "tag: Select a valid choice"},
	{"a filter is ignored", looking, jsonAnswer(200, `{"count":1,"next":null,"results":[{"id":1,"address":"192.0.2.9/28","custom_fields":{"purelb_claim":"other/default/web/default/v4"}}]}`), ipam.KindMisconfigured, "filter cf_purelb_claim was ignored"},
	{"the field is gone", looking, jsonAnswer(200, `{"count":1,"next":null,"results":[{"id":1,"address":"192.0.2.9/28","custom_fields":{}}]}`), ipam.KindMisconfigured, "custom field is not there any more"},
	{"a page without end", looking, jsonAnswer(200, `{"count":9,"next":"http://netbox.example/api/x","results":[]}`), ipam.KindUnavailable, "a page is empty"},
	{"ids in disorder", sweeping, jsonAnswer(200, `{"count":2,"next":null,"results":[{"id":2,"address":"192.0.2.2/28","custom_fields":{"purelb_claim":"ipamtest/a/b/default/v4"}},{"id":2,"address":"192.0.2.3/28","custom_fields":{"purelb_claim":"ipamtest/a/c/default/v4"}}]}`), ipam.KindUnavailable, "order of their ids"},
	{"a claim of another cluster in the sweep", sweeping, jsonAnswer(200, `{"count":1,"next":null,"results":[{"id":1,"address":"192.0.2.9/28","custom_fields":{"purelb_claim":"other/default/web/default/v4"}}]}`), ipam.KindMisconfigured, "was ignored"},
	{"half a sweep", sweeping, jsonAnswer(502, `{}`), ipam.KindUnavailable, "HTTP 502"},
	{"no count", counting, jsonAnswer(200, `{"count":null,"next":null,"results":[]}`), ipam.KindUnavailable, "no count"},

	{"read-only token", claiming, jsonAnswer(403, `{"detail":"You do not have permission to perform this action."}`), ipam.KindMisconfigured, "read-only"},
	{"prefix gone", claiming, jsonAnswer(404, `{"detail":"No Prefix matches the given query."}`), ipam.KindMisconfigured, "No Prefix matches"},
	{"exhausted", claiming, jsonAnswer(409, `{"detail":"Insufficient resources are available to satisfy the request"}`), ipam.KindExhausted, "no free IPv4 address in prefix 192.0.2.0/28"},
	{"field error of an object", claiming, jsonAnswer(400, `{"dns_name":["Only alphanumeric characters are allowed in DNS names"]}`), ipam.KindInvalid, "dns_name: Only alphanumeric"},
	{"field error in a list", claiming, jsonAnswer(400, `[{"description":["Not a valid string."]}]`), ipam.KindInvalid, "description: Not a valid string."},
	{"field error of 4.7", claiming, jsonAnswer(400, `{"detail":"Bulk failed","errors":[{"index":0,"errors":{"dns_name":["wrong"]}}]}`), ipam.KindInvalid, "dns_name: wrong"},
	{"nested field error", claiming, jsonAnswer(400, `{"custom_fields":{"purelb_claim":"Custom field 'purelb_claim' does not exist for this object type."}}`), ipam.KindMisconfigured, "custom_fields.purelb_claim: Custom field"},
	{"unknown tenant", claiming, jsonAnswer(400, `{"tenant":["Related object not found using the provided numeric ID: 999"]}`), ipam.KindMisconfigured, "tenant: Related object"},
	{"a range that offers an existing address", ranging, jsonAnswer(400, `{"address":["Duplicate IP address found in VRF lb-vrf: 2001:db8::10/128"]}`), ipam.KindMisconfigured, "another mask"},
	{"a prefix from which other clients take addresses", claiming, jsonAnswer(400, `{"address":["Duplicate IP address found in VRF lb-vrf: 192.0.2.1/32"]}`), ipam.KindUnavailable, "again and again"},
	{"a key that cannot be seen", claiming, jsonAnswer(400, `{"__all__":["Custom field 'purelb_claim' must have a unique value."]}`), ipam.KindMisconfigured, "cannot see"},
	{"a damaged request", claiming, jsonAnswer(400, `{"detail":"JSON parse error - Expecting value: line 1 column 17 (char 16)"}`), ipam.KindMisconfigured, "check the proxies"},
	{"unreadable 400", claiming, jsonAnswer(400, `{`), ipam.KindInvalid, "no reason that can be read"},
	{"failed after the commit", claiming, htmlAnswer(500), ipam.KindUnknown, "HTTP 500"},
	{"gateway timeout", claiming, htmlAnswer(504), ipam.KindUnknown, "HTTP 504"},
	{"maintenance", claiming, jsonAnswer(500, `{"error":"NetBox is currently operating in maintenance mode and is unable to perform write operations. Please try again later."}`), ipam.KindUnavailable, "maintenance"},
	{"read-only database", claiming, jsonAnswer(500, `{"error":"cannot execute UPDATE in a read-only transaction","exception":"InternalError"}`), ipam.KindUnavailable, "read-only transaction"},
	{"too many requests", claiming, htmlAnswer(429, "Retry-After", "120"), ipam.KindUnavailable, "too many requests"},
	{"request timeout", claiming, htmlAnswer(408), ipam.KindUnknown, "HTTP 408"},
	{"redirected claim", claiming, htmlAnswer(301, "Location", "/api/ipam/prefixes/1/available-ips/"), ipam.KindMisconfigured, "not followed"},
	{"a list of free addresses", claiming, jsonAnswer(200, `[{"family":4,"address":"192.0.2.1/28"}]`), ipam.KindUnknown, "not the JSON"},
	{"a free address", claiming, jsonAnswer(200, `{"family":4,"address":"192.0.2.1/28"}`), ipam.KindUnknown, "HTTP 200, not 201"},
	{"created, without a key", claiming, jsonAnswer(201, `{"id":7,"address":"192.0.2.3/28","vrf":{"id":1},"status":{"value":"active"},"custom_fields":{}}`), ipam.KindMisconfigured, "without its key"},
	{"a list for one named address", naming, jsonAnswer(201, `[]`), ipam.KindUnknown, "not the JSON"},
	{"created, as HTML", claiming, htmlAnswer(201), ipam.KindUnknown, "not JSON"},
	{"created, cut off", claiming, jsonAnswer(201, `{"id":7,"address":"192.`), ipam.KindUnknown, "not the JSON"},
	{"created, null", claiming, jsonAnswer(201, `null`), ipam.KindUnknown, "it has no address"},
	{"created, another key", claiming, jsonAnswer(201, `{"id":7,"address":"192.0.2.3/28","vrf":{"id":1},"status":{"value":"active"},"custom_fields":{"purelb_claim":"x"}}`), ipam.KindUnknown, "it has the claim x"},
	{"created, outside of the prefix", claiming, jsonAnswer(201, `{"id":7,"address":"198.51.100.3/28","vrf":{"id":1},"status":{"value":"active"},"custom_fields":{"purelb_claim":"ipamtest/default/web/default/v4"}}`), ipam.KindUnknown, "is not of the prefix"},
	{"created, in another VRF", claiming, jsonAnswer(201, `{"id":7,"address":"192.0.2.3/28","vrf":null,"status":{"value":"active"},"custom_fields":{"purelb_claim":"ipamtest/default/web/default/v4"}}`), ipam.KindUnknown, "is not of the prefix"},
	{"created, with another status", claiming, jsonAnswer(201, `{"id":7,"address":"192.0.2.3/28","vrf":{"id":1},"status":{"value":"reserved"},"custom_fields":{"purelb_claim":"ipamtest/default/web/default/v4"}}`), ipam.KindUnknown, "status reserved"},
	{"created, not an address", claiming, jsonAnswer(201, `{"id":7,"address":"x","vrf":{"id":1},"status":{"value":"active"},"custom_fields":{"purelb_claim":"ipamtest/default/web/default/v4"}}`), ipam.KindUnknown, "is not of the prefix"},
	{"claim with a broken connection", claiming, breaks, ipam.KindUnknown, "connection broke"},

	{"a named address that is held", naming, jsonAnswer(400, `{"address":["Duplicate IP address found in VRF lb-vrf (64512:99): 192.0.2.5/28"]}`), ipam.KindTaken, "Duplicate IP address"},
	{"a named address in a populated range", naming, jsonAnswer(400, `{"address":["Cannot create IP address 192.0.2.5/28 inside range 192.0.2.4-6/28."]}`), ipam.KindInvalid, "inside range"},
	{"another address than the named one", naming, jsonAnswer(201, `{"id":7,"address":"192.0.2.3/28","vrf":{"id":1},"status":{"value":"active"},"custom_fields":{"purelb_claim":"ipamtest/default/web/default/v4"}}`), ipam.KindUnknown, "it has 192.0.2.3/28"},
	{"a malformed mask before 4.6.6", naming, jsonAnswer(500, `{"error":"'data'","exception":"KeyError"}`), ipam.KindUnknown, "'data'"},

	{"release without the right", releasing, jsonAnswer(403, `{"detail":"You do not have permission to perform this action."}`), ipam.KindMisconfigured, "lacks the permission"},
	{"release without the right to delete", releasing, jsonAnswer(404, `{"detail":"No IPAddress matches the given query."}`), ipam.KindMisconfigured, "delete_ipaddress"},
	{"release that fails", releasing, htmlAnswer(500), ipam.KindUnknown, "HTTP 500"},
	{"release of an address in use", releasing, jsonAnswer(409, `{"detail":"Unable to delete object."}`), ipam.KindMisconfigured, "in use"},
	{"release, broken connection", releasing, breaks, ipam.KindUnknown, "connection broke"},
	{"release with a login page", releasing, htmlAnswer(200), ipam.KindUnknown, "not JSON"},
}

func TestBadAnswersHaveKindAndCure(t *testing.T) {
	for _, tt := range badAnswers {
		t.Run(tt.on.name+"/"+tt.name, func(t *testing.T) {
			b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
			err := tt.on.do(b, b.clientOf(t, interrupt(b.Server, tt.on.is, tt.answer)))
			var e *ipam.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an error of kind %s", err, tt.kind)
			}
			if e.Kind != tt.kind || !strings.Contains(e.Message, tt.says) {
				t.Errorf("got %s: %s\nwant %s with %q", e.Kind, e.Message, tt.kind, tt.says)
			}
			if !strings.Contains(e.Message, "http://netbox.example/") {
				t.Errorf("the message does not say which server: %s", e.Message)
			}
			if strings.Contains(err.Error(), netboxtest.AdminToken) {
				t.Errorf("the message has the token: %s", e.Message)
			}
		})
	}
}

// interrupt answers the requests that are selected in place of the server.
func interrupt(s http.Handler, is func(*http.Request) bool, with answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if is(r) {
			with(w, r)
			return
		}
		s.ServeHTTP(w, r)
	})
}

// clientOf returns a client of a server.
func (b *memoryNetBox) clientOf(t testing.TB, h http.Handler) *netbox.Client {
	t.Helper()
	return connect(t, netbox.Config{URL: "http://netbox.example", Transport: netboxtest.Transport(h)})
}

// The driver repeats a failed claim unchanged. Whatever the answer was, NetBox then holds one
// address.
func TestRetryAfterAnyBadAnswerClaimsOnce(t *testing.T) {
	for _, tt := range badAnswers {
		if !slices.Contains([]string{"claim", "named", "look"}, tt.on.name) {
			continue
		}
		for _, executed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%s/executed %t", tt.on.name, tt.name, executed), func(t *testing.T) {
				b := newMemoryNetBox(t, netboxtest.V46, inPrefixes)
				broken := interrupt(b.Server, tt.on.is, func(w http.ResponseWriter, r *http.Request) {
					if executed {
						netboxtest.Execute(b.Server, r)
					}
					tt.answer(w, r)
				})
				if tt.on.do(b, b.clientOf(t, broken)) == nil && !executed {
					t.Fatal("the bad answer was taken for a good one")
				}
				if err := tt.on.do(b, b.clientOf(t, b.Server)); err != nil {
					t.Fatal(err)
				}
				if n := len(b.Server.Addresses()); n != 1 {
					t.Errorf("%d addresses were made for one claim", n)
				}
			})
		}
	}
}
