package netbox

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"purelb.io/purelb/internal/ipam"
)

// longestQuery limits the filter for keys. gunicorn accepts 4,094 bytes for the whole
// first line of a request.
const longestQuery = 2500

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

// requests divides keys into parts that fit into a URL.
func (k keyField) requests(keys []string) [][]string {
	var parts [][]string
	length := longestQuery
	for _, key := range keys {
		size := len(k.filter()) + len(url.QueryEscape(key)) + 2
		if length+size > longestQuery {
			parts = append(parts, nil)
			length = 0
		}
		length += size
		parts[len(parts)-1] = append(parts[len(parts)-1], key)
	}
	return parts
}

// find returns the addresses that NetBox holds for keys, lowest id first.
func (p *Pool) find(ctx context.Context, keys []string) (map[string][]address, error) {
	found := map[string][]address{}
	for _, part := range p.key.requests(keys) {
		what := call{name: "look", method: http.MethodGet, path: "ipam/ip-addresses/",
			query: fields(addressFields), what: fmt.Sprintf("look for %s", count(len(part), "claim"))}
		what.query[p.key.filter()] = part
		all, err := list[address](ctx, p.client, what)
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			key, known := p.key.of(a)
			if !known || !slices.ContainsFunc(part, func(asked string) bool { return containsFold(key, asked) }) {
				return nil, p.filterIgnored(what)
			}
			found[key] = append(found[key], a)
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

// count says how many things there are.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
