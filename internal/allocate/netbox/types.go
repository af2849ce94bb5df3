package netbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// pageSize is how many objects one request asks for. Servers may send fewer.
const pageSize = 1000

// address is an IP address in NetBox.
type address struct {
	ID           int64          `json:"id"`
	Address      string         `json:"address"`
	VRF          *reference     `json:"vrf"`
	Tenant       *reference     `json:"tenant"`
	Status       choice         `json:"status"`
	Description  string         `json:"description"`
	CustomFields map[string]any `json:"custom_fields"`
	Created      string         `json:"created"`
}

// addressFields are the fields that requests ask for.
const addressFields = "id,address,vrf,tenant,status,description,custom_fields,created"

// block is a prefix or an IP range in NetBox.
type block struct {
	ID        int64      `json:"id"`
	Prefix    string     `json:"prefix"`
	Start     string     `json:"start_address"`
	End       string     `json:"end_address"`
	VRF       *reference `json:"vrf"`
	IsPool    bool       `json:"is_pool"`
	Populated bool       `json:"mark_populated"`
}

// customField is the definition of a custom field.
type customField struct {
	Name         string   `json:"name"`
	Type         choice   `json:"type"`
	FilterLogic  choice   `json:"filter_logic"`
	Unique       bool     `json:"unique"`
	ObjectTypes  []string `json:"object_types"`
	ContentTypes []string `json:"content_types"` // before 4.0
}

// reference is a reference from one object to another.
type reference struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	Slug string `json:"slug"`
	RD   string `json:"rd"`
}

// choice is a value with a label, or only the value.
type choice struct{ Value string }

func (c *choice) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &c.Value) == nil {
		return nil
	}
	var full struct {
		Value string `json:"value"`
	}
	err := json.Unmarshal(text, &full)
	c.Value = full.Value
	return err
}

// page is a part of a list.
type page[T any] struct {
	Count   *int    `json:"count"`
	Next    *string `json:"next"`
	Results *[]T    `json:"results"`
}

// numbered is an object with an id.
type numbered interface{ id() int64 }

func (a address) id() int64 { return a.ID }
func (b block) id() int64   { return b.ID }

// list reads all pages of a list. It continues after the last id. An offset would skip objects when
// others are deleted, and NetBox builds the URL in "next" from a header.
func list[T numbered](ctx context.Context, c *Client, what call) ([]T, error) {
	what.method = http.MethodGet
	what.query.Set("limit", strconv.Itoa(pageSize))
	what.query.Set("ordering", "id")
	var all []T
	for last := int64(0); ; {
		var p page[T]
		r, err := c.do(ctx, what, &p)
		if err != nil {
			return nil, err
		}
		if p.Results == nil {
			return nil, c.strange(what, r, "the list has no results")
		}
		for _, one := range *p.Results {
			if one.id() <= last {
				return nil, c.strange(what, r, "the objects are not in the order of their ids, or the filter for the id is ignored")
			}
			last = one.id()
			all = append(all, one)
		}
		if p.Next == nil {
			return all, nil
		}
		if len(*p.Results) == 0 {
			return nil, c.strange(what, r, "a page is empty, but there is another one")
		}
		what.query.Set("id__gt", strconv.FormatInt(last, 10))
	}
}

// strange is the error for a reply that is JSON, but not what NetBox sends.
func (c *Client) strange(what call, r reply, found string) *ipam.Error {
	return c.report(&ipam.Error{Kind: outcome(what, ipam.KindUnavailable), Cause: &refusal{status: r.status},
		Message: c.about(what, "the reply cannot be used: "+found+"; if this lasts, check the version of NetBox and what lies before it")})
}

// ip is the address without its mask; the zero Addr when NetBox sent no address.
func (a address) ip() netip.Addr {
	p, err := netip.ParsePrefix(a.Address)
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr().Unmap()
}

func sameID(a, b *reference) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ID == b.ID
}

// version is that of a NetBox server.
type version [3]int

// readVersion reads "4.6.8" and also "4.6.8-Docker-3.4.1".
func readVersion(text string) (version, bool) {
	text, _, _ = strings.Cut(text, "-")
	var v version
	parts := strings.SplitN(text, ".", 3)
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return version{}, false
		}
		v[i] = n
	}
	return v, len(parts) >= 2
}

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// before says whether v is older than major.minor.patch.
func (v version) before(major, minor, patch int) bool {
	o := version{major, minor, patch}
	for i := range v {
		if v[i] != o[i] {
			return v[i] < o[i]
		}
	}
	return false
}

// familyName is the value that NetBox's filter accepts.
func familyName(f addr.Family) string { return strconv.Itoa(int(f)) }

func fields(names string) url.Values { return url.Values{"fields": {names}} }
