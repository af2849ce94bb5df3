package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"purelb.io/purelb/internal/testing/netboxtest"
)

// control is the control endpoint. It answers JSON, or an error as text.
//
//	GET  /addresses                      what NetBox holds
//	GET  /requests                       how often each call was made
//	POST /stop?at=request|answer&method=M&path=P
//	                                     requests are held, before NetBox works on them or before it answers
//	GET  /stopped                        waits until a request is held, and names it
//	POST /resume?lose=true               releases the held requests; with lose, they fail
//	POST /token?state=valid|disabled
//	POST /down, POST /up                 NetBox refuses connections, and accepts them again
//	POST /exit                           the program ends
//
// M is a method and P is a part of the path with its query. A missing M or P matches all requests.
type control struct {
	netbox *netboxtest.Server
	token  string
	gate   *gate
	site   *site
	exit   func()
}

func (c *control) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range map[string]func(r *http.Request) (any, error){
		"GET /addresses": c.addresses,
		"GET /requests":  c.requests,
		"POST /stop":     c.stop,
		"GET /stopped":   func(r *http.Request) (any, error) { return c.gate.wait(r.Context()) },
		"POST /resume":   c.resume,
		"POST /token":    c.setToken,
		"POST /down":     func(*http.Request) (any, error) { return nil, c.site.close() },
		"POST /up":       func(*http.Request) (any, error) { return nil, c.site.open() },
		"POST /exit":     func(*http.Request) (any, error) { c.exit(); return nil, nil },
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			body, err := handle(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			_ = json.NewEncoder(w).Encode(body)
		})
	}
	return mux
}

// Address is an address that NetBox holds, as /addresses shows it.
type Address struct {
	ID          int64
	Address     netip.Prefix
	Status      string
	Description string
	// Fields are the custom fields.
	Fields map[string]any
	// URL is the web page of the address.
	URL string
}

func (c *control) addresses(*http.Request) (any, error) {
	list := []Address{}
	for _, a := range c.netbox.Addresses() {
		list = append(list, Address{ID: a.ID, Address: a.Prefix, Status: a.Status, Description: a.Description,
			Fields: a.Fields, URL: fmt.Sprintf("http://%s/ipam/ip-addresses/%d/", c.site.address, a.ID)})
	}
	return list, nil
}

var ids = regexp.MustCompile(`/[0-9]+/`)

func (c *control) requests(*http.Request) (any, error) {
	counts := map[string]int{}
	for _, r := range c.netbox.Requests() {
		counts[r.Method+" "+ids.ReplaceAllString(r.Path, "/{id}/")]++
	}
	if strange := c.netbox.Complaints(); len(strange) > 0 {
		return nil, fmt.Errorf("NetBox does not know what was asked: %s", strings.Join(strange, "; "))
	}
	return counts, nil
}

func (c *control) stop(r *http.Request) (any, error) {
	query := r.URL.Query()
	at := query.Get("at")
	if at != "request" && at != "answer" {
		return nil, fmt.Errorf("at=%q is not known: want request or answer", at)
	}
	c.gate.arm(stop{method: query.Get("method"), path: query.Get("path"), answer: at == "answer"})
	return nil, nil
}

func (c *control) resume(r *http.Request) (any, error) {
	c.gate.resume(r.URL.Query().Get("lose") == "true")
	return nil, nil
}

func (c *control) setToken(r *http.Request) (any, error) {
	state := r.URL.Query().Get("state")
	tokens := map[string]netboxtest.Token{"valid": {}, "disabled": {Refusal: netboxtest.Disabled}}
	token, known := tokens[state]
	if !known {
		return nil, fmt.Errorf("the state %q is not known: want one of %v", state, slices.Sorted(maps.Keys(tokens)))
	}
	c.netbox.SetToken(c.token, token)
	return nil, nil
}
