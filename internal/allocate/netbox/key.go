package netbox

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"purelb.io/purelb/internal/allocate/ipam"
)

// keyField is the name of the custom field in which NetBox stores the key of a claim.
type keyField string

// filter returns the name of NetBox's filter for keys.
func (k keyField) filter() string { return "cf_" + string(k) }

// of returns the key of a, or "". It returns false if the reply lacks the field: NetBox
// then does not know the field, and ignores the filter for it.
func (k keyField) of(a address) (string, bool) {
	value, ok := a.CustomFields[string(k)]
	key, _ := value.(string)
	return key, ok
}

// write puts the key into the body of a request. The key "" removes it.
func (k keyField) write(body map[string]any, key string) {
	value := any(key)
	if key == "" {
		value = nil
	}
	body["custom_fields"] = map[string]any{string(k): value}
}

// keyProblem returns why NetBox cannot store a key, or "".
func keyProblem(key string) string {
	switch {
	case key == "":
		return "it has no key"
	case key != strings.TrimSpace(key):
		return "its key has blanks at its ends"
	}
	return ""
}

// find returns the addresses that NetBox holds for a key, lowest id first.
func (p *Pool) find(ctx context.Context, key string) ([]address, error) {
	what := call{name: "look", method: http.MethodGet, path: "ipam/ip-addresses/",
		query: fields(addressFields), what: "look for 1 claim"}
	what.query.Set(p.key.filter(), key)
	all, err := list[address](ctx, p.client, what)
	if err != nil {
		return nil, err
	}
	var found []address
	for _, a := range all {
		has, known := p.key.of(a)
		if !known || !containsFold(has, key) {
			return nil, p.filterIgnored(what)
		}
		if has == key {
			found = append(found, a)
		}
	}
	return found, nil
}

// containsFold compares as NetBox does if the filter logic of the field is loose.
func containsFold(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// filterIgnored is the error for a list with entries that were not asked for. NetBox
// ignores unknown filters, such as that for a deleted custom field.
func (p *Pool) filterIgnored(what call) *ipam.Error {
	return p.client.report(misconfigured("%s", p.client.about(what, fmt.Sprintf(
		"the filter %s was ignored, so nothing is known: the custom field is not there any more, or the token may not see it; make it again for IP addresses (type text, unique, filter logic exact)", p.key.filter()))))
}
