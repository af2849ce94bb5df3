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

// makeFree makes the first free address of a block.
func (s *Server) makeFree(q *question) (*answer, error) {
	b := s.db.block(q.kind, q.id)
	if b == nil || !q.token.may(q.kind.right) {
		return nil, noMatch(q.kind.class)
	}
	ip := s.free(*b)
	if !ip.IsValid() {
		return nil, detail(http.StatusConflict, "Insufficient resources are available to satisfy the request")
	}
	a, err := s.create(q, Address{Prefix: netip.PrefixFrom(ip, b.Prefix.Bits()), VRF: b.VRF})
	if err == nil {
		a.etag = ""
	}
	return a, err
}

// makeNamed makes the address that the client names.
func (s *Server) makeNamed(q *question) (*answer, error) {
	text, _ := q.body["address"].(string)
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Bits() == 0 {
		return nil, strange("not an address with a mask: " + text)
	}
	return s.create(q, Address{Prefix: p})
}

// create makes an address with the fields of the body.
func (s *Server) create(q *question, a Address) (*answer, error) {
	a.Status, a.Fields = "active", map[string]any{}
	if err := s.apply(q, &a); err != nil {
		return nil, err
	}
	made := *s.db.address(s.db.addAddress(a, s.Now()))
	return &answer{status: http.StatusCreated, body: s.renderAddress(made), etag: s.etag(made)}, nil
}

// changeAddress changes an address as the body says.
func (s *Server) changeAddress(q *question) (*answer, error) {
	a, err := s.writable(q)
	if err != nil {
		return nil, err
	}
	changed := *a
	changed.Fields = maps.Clone(a.Fields)
	if err := s.apply(q, &changed); err != nil {
		return nil, err
	}
	changed.updated = s.Now()
	*a = changed
	return &answer{status: http.StatusOK, body: s.renderAddress(*a), etag: s.etag(*a)}, nil
}

func (s *Server) removeAddress(q *question) (*answer, error) {
	a, err := s.writable(q)
	if err != nil {
		return nil, err
	}
	s.db.removeAddress(a.ID)
	return &answer{status: http.StatusNoContent}, nil
}

// writable returns the address that a request names, if the token may change it and it is as the
// client believes.
func (s *Server) writable(q *question) (*Address, error) {
	a := s.db.address(q.id)
	if a == nil || !q.token.writes(*a) {
		return nil, noMatch("IPAddress")
	}
	condition := q.r.Header.Get("If-Match")
	if condition != "" && condition != "*" && !s.before("4.6.0") && condition != s.etag(*a) {
		return nil, &failure{status: http.StatusPreconditionFailed, body: map[string]any{"detail": "Precondition failed."}, etag: s.etag(*a)}
	}
	return a, nil
}

// problems are the faults of an object, by field.
type problems map[string]any

func (p problems) add(field, format string, args ...any) {
	p[field] = []string{fmt.Sprintf(format, args...)}
}

// apply writes the fields of the body into a. It checks each field by itself, and then the whole
// against the stored addresses.
func (s *Server) apply(q *question, a *Address) error {
	wrong := problems{}
	applyChoice(q.body, "status", &a.Status, addressStatuses, wrong)
	applyChoice(q.body, "role", &a.Role, addressRoles, wrong)
	s.applyReference(q, "vrf", vrfs, &a.VRF, wrong)
	s.applyReference(q, "tenant", tenants, &a.Tenant, wrong)
	s.applyTags(q, a, wrong)
	applyTexts(a, q.body, wrong)
	s.applyFields(a, q.body, wrong)
	if len(wrong) == 0 {
		s.clean(a, wrong)
	}
	switch {
	case len(wrong) > 0:
		return &failure{status: http.StatusBadRequest, body: wrong}
	case !q.token.writes(*a):
		return errForbidden
	}
	return nil
}

func applyChoice(fields map[string]any, name string, into *string, allowed []string, wrong problems) {
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

func (s *Server) applyReference(q *question, name string, k kind, into *string, wrong problems) {
	value, given := q.body[name]
	if !given {
		return
	}
	if value == nil {
		*into = ""
		return
	}
	n, problem := s.resolve(q, k, value)
	if problem != "" {
		wrong.add(name, "%s", problem)
		return
	}
	*into = n.slug
}

// resolve finds the object that a reference means: an id, or a dictionary with a slug. From 4.6.6 on,
// a slug needs the right to view the object.
func (s *Server) resolve(q *question, k kind, value any) (n *named, problem string) {
	if id, byID := value.(float64); byID {
		if n = s.db.numbered(k, fmt.Sprint(id)); n == nil {
			problem = fmt.Sprintf("Related object not found using the provided numeric ID: %v", id)
		}
		return n, problem
	}
	slug := value.(map[string]any)["slug"].(string)
	if s.before("4.6.6") || q.token.may(k.right) {
		n = s.db.find(k, slug)
	}
	if n == nil {
		problem = fmt.Sprintf("Related object not found using the provided attributes: {'slug': '%s'}", slug)
	}
	return n, problem
}

// applyTags replaces the tags.
func (s *Server) applyTags(q *question, a *Address, wrong problems) {
	list, given := q.body["tags"].([]any)
	if !given {
		return
	}
	a.Tags = nil
	for _, value := range list {
		n, problem := s.resolve(q, tags, value)
		if problem != "" {
			wrong.add("tags", "%s", problem)
			return
		}
		a.Tags = append(a.Tags, n.slug)
	}
}

func applyTexts(a *Address, fields map[string]any, wrong problems) {
	if text, given := fields["description"].(string); given {
		if a.Description = text; len([]rune(a.Description)) > 200 {
			wrong.add("description", "Ensure this field has no more than 200 characters.")
		}
	}
	if text, given := fields["dns_name"].(string); given {
		if a.DNSName = strings.ToLower(text); a.DNSName != "" && !dnsName.MatchString(a.DNSName) {
			wrong.add("dns_name", "Only alphanumeric characters, asterisks, hyphens, periods, and underscores are allowed in DNS names")
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
		case field == nil || !field.ofAddresses():
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
		table := "global table"
		if v := s.db.find(vrfs, a.VRF); v != nil {
			table = "VRF " + v.display()
		}
		wrong.add("address", "Duplicate IP address found in %s: %s", table, o.Prefix)
		return
	}
	if b := s.populated(a.VRF, a.ip()); a.ID == 0 && b != nil && b.Prefix.Bits() == a.Prefix.Bits() {
		wrong.add("address", "Cannot create IP address %s inside range %s.", a.Prefix, b.display())
	}
	if a.Status == "slaac" && a.ip().Is4() {
		wrong.add("status", "Only IPv6 addresses can be assigned SLAAC status")
	}
}

// makeField makes a custom field.
func (s *Server) makeField(q *question) (*answer, error) {
	text := func(name string) string { v, _ := q.body[name].(string); return v }
	f := CustomField{Name: text("name"), Type: text("type"), FilterLogic: text("filter_logic"), Unique: q.body["unique"] == true}
	types, _ := q.body["object_types"].([]any)
	for _, t := range types {
		f.ObjectTypes = append(f.ObjectTypes, fmt.Sprint(t))
	}
	if s.db.field(f.Name) != nil {
		return nil, &failure{status: http.StatusBadRequest, body: map[string]any{"name": []string{"custom field with this name already exists."}}}
	}
	return &answer{status: http.StatusCreated, body: s.db.addField(f).render()}, nil
}
