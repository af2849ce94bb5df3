package netbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"purelb.io/purelb/internal/allocate/ipam"
)

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

// complaints are the objections in a 400. NetBox sometimes writes them as a list of one object.
type complaints []complaint

// have reports whether is holds for one of the complaints.
func (l complaints) have(is func(complaint) bool) bool { return slices.ContainsFunc(l, is) }

func (l complaints) String() string {
	var texts []string
	for _, c := range l {
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
	for _, c := range l {
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
		if slices.ContainsFunc(l, func(c complaint) bool { return strings.Contains(c.text, "JSON parse error") }) {
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
		return complaints{{text: "no reason that can be read"}}
	}
	fields, _ := said.(map[string]any)
	wrong, indexed := fields["errors"].([]any) // NetBox 4.7 lists the wrong objects
	if !indexed {
		return flatten("", said)
	}
	var list complaints
	for _, entry := range wrong {
		fields, _ := entry.(map[string]any)
		if errors, ok := fields["errors"]; ok {
			entry = errors
		}
		list = append(list, flatten("", entry)...)
	}
	return list
}

// flatten returns the texts in said, each with the path of its field.
func flatten(field string, said any) complaints {
	var list complaints
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
