package netboxtest

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

var (
	addressRoles    = strings.Fields("loopback secondary anycast vip vrrp hsrp glbp carp")
	addressStatuses = strings.Fields("active reserved deprecated dhcp slaac")
	dnsName         = regexp.MustCompile(`^([0-9A-Za-z_-]+|\*)(\.[0-9A-Za-z_-]+)*\.?$`)
)

// problems are the faults of an object, by field.
type problems map[string]any

func (p problems) add(field, format string, args ...any) {
	p[field] = []string{fmt.Sprintf(format, args...)}
}

// badRequest answers with the problems of one object or of a list.
func badRequest(isList bool, all []problems) error {
	if !slices.ContainsFunc(all, func(p problems) bool { return len(p) > 0 }) {
		return nil
	}
	if isList {
		return &failure{status: http.StatusBadRequest, body: all}
	}
	return &failure{status: http.StatusBadRequest, body: all[0]}
}

// apply writes fields into a, and returns their problems. It checks each field by itself, and then
// the whole against the stored addresses.
func (s *Server) apply(q *question, a *Address, fields map[string]any, isNew bool) (problems, error) {
	wrong := problems{}
	if err := s.applyNumber(a, fields, isNew, wrong); err != nil {
		return nil, err
	}
	s.applyChoice(fields, "status", &a.Status, addressStatuses, wrong)
	s.applyChoice(fields, "role", &a.Role, addressRoles, wrong)
	s.applyReference(q, fields, "vrf", vrfs, &a.VRF, wrong)
	s.applyReference(q, fields, "tenant", tenants, &a.Tenant, wrong)
	s.applyTags(q, a, fields, wrong)
	applyTexts(a, fields, wrong)
	s.applyFields(a, fields, wrong)
	if len(wrong) > 0 {
		return wrong, nil
	}
	s.clean(a, wrong)
	return wrong, nil
}

// applyNumber reads the address itself. Before 4.6.6 a malformed address causes an error of the
// server.
func (s *Server) applyNumber(a *Address, fields map[string]any, isNew bool, wrong problems) error {
	value, given := fields["address"]
	switch text, isText := value.(string); {
	case !given && isNew:
		wrong.add("address", "This field is required.")
	case !given:
	case value == nil:
		wrong.add("address", "This field may not be null.")
	case !isText:
		wrong.add("address", "unexpected type <class 'int'> for addr arg")
	case text == "":
		wrong.add("address", "This field may not be blank.")
	default:
		p, err := netip.ParsePrefix(text)
		if ip, ipErr := netip.ParseAddr(text); ipErr == nil {
			p, err = netip.PrefixFrom(ip, ip.BitLen()), nil
		}
		switch {
		case err != nil && s.before("4.6.6"):
			return &failure{status: http.StatusInternalServerError, body: map[string]any{
				"error": "'data'", "exception": "KeyError", "netbox_version": s.Version, "python_version": "3.11.7"}}
		case err != nil:
			wrong.add("address", "Invalid IP address format: %s", text)
		case p.Bits() == 0:
			wrong.add("address", "Cannot create IP address with /0 mask.")
		default:
			a.Prefix = p
		}
	}
	return nil
}

func (s *Server) applyChoice(fields map[string]any, name string, into *string, allowed []string, wrong problems) {
	value, given := fields[name]
	text, _ := value.(string)
	switch {
	case !given:
	case text == "" && name == "role":
		*into = ""
	case slices.Contains(allowed, text):
		*into = text
	default:
		wrong.add(name, "%v is not a valid choice.", value)
	}
}

func (s *Server) applyReference(q *question, fields map[string]any, name, kind string, into *string, wrong problems) {
	value, given := fields[name]
	if !given {
		return
	}
	if value == nil {
		*into = ""
		return
	}
	n, problem := s.resolve(q, kind, value)
	if problem != "" {
		wrong.add(name, "%s", problem)
		return
	}
	*into = n.slug
	if kind == vrfs {
		*into = n.name
	}
}

// resolve finds the object that a reference means: an id, or a dictionary of attributes. From 4.6.6
// on, attributes need the right to view the object.
func (s *Server) resolve(q *question, kind string, value any) (*named, string) {
	attributes, byAttributes := value.(map[string]any)
	id, byID := value.(float64)
	if inner, given := attributes["id"].(float64); given {
		id, byID, byAttributes = inner, true, false
	}
	if !byID && !byAttributes {
		return nil, fmt.Sprintf("Related objects must be referenced by numeric ID or by dictionary of attributes. Received an unrecognized value: %v", value)
	}
	right := map[string]string{vrfs: "ipam.view_vrf", tenants: "tenancy.view_tenant", tags: "extras.view_tag"}[kind]
	visible := byID || s.before("4.6.6") || q.token.may(right) == nil
	for i, n := range s.db.named {
		if n.kind != kind || !visible {
			continue
		}
		if byID && n.id == int64(id) || byAttributes && (attributes["slug"] == n.slug && n.slug != "" || attributes["name"] == n.name) {
			return &s.db.named[i], ""
		}
	}
	if byID {
		return nil, fmt.Sprintf("Related object not found using the provided numeric ID: %d", int64(id))
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		parts = append(parts, fmt.Sprintf("'%s': '%v'", name, attributes[name]))
	}
	return nil, fmt.Sprintf("Related object not found using the provided attributes: {%s}", strings.Join(parts, ", "))
}

// applyTags replaces the tags. From 4.6 on, it can also add and remove single tags.
func (s *Server) applyTags(q *question, a *Address, fields map[string]any, wrong problems) {
	read := func(name string) ([]string, bool) {
		list, given := fields[name].([]any)
		slugs := []string{}
		for _, value := range list {
			n, problem := s.resolve(q, tags, value)
			if problem != "" {
				wrong.add(name, "%s", problem)
				return nil, false
			}
			slugs = append(slugs, n.slug)
		}
		return slugs, given
	}
	if slugs, given := read("tags"); given {
		a.Tags = slugs
	}
	if s.before("4.6.0") {
		return
	}
	if slugs, given := read("add_tags"); given {
		a.Tags = append(slices.Clone(a.Tags), slugs...)
		slices.Sort(a.Tags)
		a.Tags = slices.Compact(a.Tags)
	}
	if slugs, given := read("remove_tags"); given {
		a.Tags = slices.DeleteFunc(slices.Clone(a.Tags), func(t string) bool { return slices.Contains(slugs, t) })
	}
}

func applyTexts(a *Address, fields map[string]any, wrong problems) {
	for name, into := range map[string]*string{"description": &a.Description, "dns_name": &a.DNSName, "comments": &a.Comments} {
		value, given := fields[name]
		if !given {
			continue
		}
		text := fmt.Sprint(value)
		switch {
		case name == "description" && len([]rune(text)) > 200:
			wrong.add(name, "Ensure this field has no more than 200 characters.")
		case name == "dns_name" && text != "" && !dnsName.MatchString(text):
			wrong.add(name, "Only alphanumeric characters, asterisks, hyphens, periods, and underscores are allowed in DNS names")
		case name == "dns_name":
			*into = strings.ToLower(text)
		default:
			*into = text
		}
	}
}

// applyFields merges custom fields. Before 4.5.8 it silently accepts unknown ones.
func (s *Server) applyFields(a *Address, fields map[string]any, wrong problems) {
	set, _ := fields["custom_fields"].(map[string]any)
	for name, value := range set {
		field := s.db.field(name)
		_, isText := value.(string)
		switch {
		case field == nil || !slices.Contains(field.ObjectTypes, "ipam.ipaddress"):
			if !s.before("4.5.8") {
				wrong["custom_fields"] = map[string]any{name: fmt.Sprintf("Custom field '%s' does not exist for this object type.", name)}
			}
		case value == nil || isText:
			a.Fields[name] = value
		default:
			wrong.add("__all__", "Invalid value for custom field '%s': Value must be a string.", name)
		}
	}
}

// table is NetBox's name for the routing table of a VRF.
func (s *Server) table(vrf string) string {
	if v := s.db.find(vrfs, vrf); v != nil {
		return "VRF " + v.display()
	}
	return "global table"
}

// clean compares an address with the stored ones: first its keys, then the address itself.
func (s *Server) clean(a *Address, wrong problems) {
	for _, field := range s.db.fields {
		key := a.Key(field.Name)
		if !field.Unique || key == "" {
			continue
		}
		if slices.ContainsFunc(s.db.addresses, func(o Address) bool { return o.ID != a.ID && o.Key(field.Name) == key }) {
			wrong.add("__all__", "Custom field '%s' must have a unique value.", field.Name)
			return
		}
	}
	if o := s.overlap(*a); o != nil {
		wrong.add("address", "Duplicate IP address found in %s: %s", s.table(a.VRF), o.Prefix)
		return
	}
	for _, b := range s.db.blocks {
		if a.ID == 0 && b.isRange() && b.Populated && b.VRF == a.VRF && b.Prefix.Bits() == a.Prefix.Bits() && b.contains(a.ip()) {
			wrong.add("address", "Cannot create IP address %s inside range %s.", a.Prefix, b.display())
		}
	}
	if a.Status == "slaac" && a.ip().Is4() {
		wrong.add("status", "Only IPv6 addresses can be assigned SLAAC status")
	}
}
