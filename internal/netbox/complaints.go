package netbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"purelb.io/purelb/internal/ipam"
)

// mostObjects is more than the number of objects in any request.
const mostObjects = 1e6

// complaint is an objection of NetBox to a field.
type complaint struct{ field, text string }

func (c complaint) String() string {
	if c.field == "" || c.field == "__all__" || c.field == "non_field_errors" || c.field == "detail" {
		return c.text
	}
	return c.field + ": " + c.text
}

// notUnique reports whether another address has the key.
func (c complaint) notUnique() bool { return strings.Contains(c.text, "must have a unique value") }

// duplicate reports whether the address already exists.
func (c complaint) duplicate() bool { return strings.Contains(c.text, "Duplicate IP address") }

// complaints are the objections in a 400. NetBox writes them for the request, or for
// each object in it, and sometimes as a list for a single object.
type complaints struct {
	whole []complaint
	// each has the objections to each object, by its position in the request.
	each map[int][]complaint
	// size is the number of objects in the reply. It is 0 if the reply lists only the wrong ones.
	size int
}

// tellApart reports whether the complaints name the objects of a request with n
// objects.
func (l complaints) tellApart(n int) bool {
	if len(l.whole) > 0 || len(l.each) == 0 {
		return false
	}
	last := slices.Max(slices.Collect(maps.Keys(l.each)))
	return last < n && (l.size == n || l.size == 0)
}

// of returns the complaints about a request with one object.
func (l complaints) of() []complaint {
	if len(l.each) == 0 {
		return l.whole
	}
	return l.each[slices.Min(slices.Collect(maps.Keys(l.each)))]
}

// all returns every complaint.
func (l complaints) all() []complaint {
	list := slices.Clone(l.whole)
	for _, i := range slices.Sorted(maps.Keys(l.each)) {
		list = append(list, l.each[i]...)
	}
	return list
}

func (l complaints) String() string {
	var texts []string
	for _, c := range l.all() {
		if text := short(c.String()); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) > 5 {
		texts = append(texts[:5], "...")
	}
	return "(" + strings.Join(texts, "; ") + ")"
}

// groupFields are the fields that come from the group, not from the Service.
var groupFields = []string{"tenant", "tags", "vrf", "role", "status", "custom_fields", "prefix_length", "vrf_id", "site", "tag"}

// kind returns the kind of the error. A wrong field of the group means that the group
// is misconfigured.
func (l complaints) kind() ipam.Kind {
	for _, c := range l.all() {
		field, _, _ := strings.Cut(c.field, ".")
		switch {
		case c.duplicate():
			return ipam.KindTaken
		case slices.Contains(groupFields, field), strings.Contains(c.text, "Invalid value for custom field"),
			strings.Contains(c.text, "JSON parse error"):
			return ipam.KindMisconfigured
		}
	}
	return ipam.KindInvalid
}

func (l complaints) cure() string {
	switch l.kind() {
	case ipam.KindTaken:
		return "NetBox holds the address for something else: release it there, or ask for another one"
	case ipam.KindMisconfigured:
		if slices.ContainsFunc(l.all(), func(c complaint) bool { return strings.Contains(c.text, "JSON parse error") }) {
			return "something between here and NetBox changes requests: check the proxies"
		}
		return "correct this field of the group, or give the token's user the permission to view what it names"
	default:
		return "correct this field of the Service"
	}
}

// readComplaints reads the body of a 400 in each of its forms.
func readComplaints(body []byte) complaints {
	var said any
	if err := json.Unmarshal(body, &said); err != nil {
		return complaints{whole: []complaint{{text: "no reason that can be read"}}}
	}
	switch said := said.(type) {
	case []any:
		return readList(said)
	case map[string]any:
		if list, ok := said["errors"].([]any); ok {
			return readIndexed(list)
		}
		return complaints{whole: flatten("", said)}
	default:
		return complaints{whole: flatten("", said)}
	}
}

// readList reads a list with one entry per object, empty if the object is right.
func readList(list []any) complaints {
	l := complaints{each: map[int][]complaint{}, size: len(list)}
	for i, entry := range list {
		fields, ok := entry.(map[string]any)
		if !ok {
			l.whole = append(l.whole, flatten("", entry)...)
			continue
		}
		if found := flatten("", fields); len(found) > 0 {
			l.each[i] = found
		}
	}
	return l
}

// readIndexed reads the form of NetBox 4.7: a list of the wrong objects.
func readIndexed(list []any) complaints {
	l := complaints{each: map[int][]complaint{}}
	for _, entry := range list {
		fields, _ := entry.(map[string]any)
		index, ok := fields["index"].(float64)
		if !ok || index < 0 || index > mostObjects {
			l.whole = append(l.whole, flatten("", entry)...)
			continue
		}
		l.each[int(index)] = flatten("", fields["errors"])
	}
	return l
}

// flatten returns the texts in said, each with the path of its field.
func flatten(field string, said any) []complaint {
	var list []complaint
	switch said := said.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(said)) {
			path := name
			if field != "" {
				path = field + "." + name
			}
			list = append(list, flatten(path, said[name])...)
		}
	case []any:
		for _, entry := range said {
			list = append(list, flatten(field, entry)...)
		}
	case nil:
	default:
		list = append(list, complaint{field: field, text: fmt.Sprint(said)})
	}
	return list
}
