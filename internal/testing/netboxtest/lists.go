package netboxtest

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// object is what a list holds: an address or a block.
type object struct {
	id       int64
	prefix   netip.Prefix
	vrf      *named
	address  Address
	rendered map[string]any
}

// filter selects objects by the values of a parameter. One value that fits is enough.
type filter struct {
	// knows refuses values that NetBox does not know. nil means that NetBox accepts all.
	knows func(s *Server, value string) bool
	keep  func(o object, value string) bool
}

var filters = map[string]filter{
	"id__gt":        {nil, func(o object, v string) bool { n, _ := strconv.ParseInt(v, 10, 64); return o.id > n }},
	"status":        {nil, func(o object, v string) bool { return o.address.Status == v }},
	"family":        {nil, func(o object, v string) bool { return o.prefix.Addr().Is4() == (v == "4") }},
	"prefix":        {nil, func(o object, v string) bool { return o.prefix.String() == v }},
	"start_address": {nil, hasNumber},
	"address":       {nil, hasNumber},
	"parent": {nil, func(o object, v string) bool {
		p, err := netip.ParsePrefix(v)
		return err == nil && p.Contains(o.prefix.Addr())
	}},
	"tenant": {
		func(s *Server, v string) bool { return s.db.find(tenants, v) != nil },
		func(o object, v string) bool { return o.address.Tenant == v },
	},
	"vrf_id": {
		func(s *Server, v string) bool { return v == "null" || s.db.numbered(vrfs, v) != nil },
		func(o object, v string) bool {
			return o.vrf == nil && v == "null" || o.vrf != nil && fmt.Sprint(o.vrf.id) == v
		},
	},
}

// hasNumber compares the mask only if there is one.
func hasNumber(o object, v string) bool {
	if strings.Contains(v, "/") {
		return o.prefix.String() == v
	}
	return o.prefix.Addr().String() == v
}

// fieldFilter filters addresses by a custom field: "cf_key" or "cf_key__isw". It is nil if there is
// no such field, because NetBox then ignores the parameter.
func (s *Server) fieldFilter(parameter string) *filter {
	name, lookup := strings.TrimPrefix(parameter, "cf_"), "exact"
	if before, begins := strings.CutSuffix(name, "__isw"); begins {
		name, lookup = before, "begins"
	}
	field := s.db.field(name)
	if field == nil || field.FilterLogic == "disabled" || !field.ofAddresses() {
		return nil
	}
	if lookup == "exact" {
		lookup = field.FilterLogic
	}
	return &filter{keep: func(o object, v string) bool {
		value, wanted := o.address.Key(name), strings.TrimSpace(v)
		switch lookup {
		case "begins":
			return strings.HasPrefix(strings.ToLower(value), strings.ToLower(wanted))
		case "loose":
			return strings.Contains(strings.ToLower(value), strings.ToLower(wanted))
		default:
			return value == wanted && value != ""
		}
	}}
}

// page selects objects by the parameters that NetBox knows, and renders the first of them.
func (s *Server) page(q *question, objects []object) (*answer, error) {
	for name, values := range q.query {
		f := s.fieldFilter(name)
		if plain, known := filters[name]; known {
			f = &plain
		}
		if f == nil {
			continue
		}
		for _, v := range values {
			if f.knows != nil && !f.knows(s, v) {
				return nil, &failure{status: http.StatusBadRequest, body: map[string]any{
					name: []string{fmt.Sprintf("Select a valid choice. %s is not one of the available choices.", v)}}}
			}
		}
		objects = slices.DeleteFunc(objects, func(o object) bool {
			return !slices.ContainsFunc(values, func(v string) bool { return f.keep(o, v) })
		})
	}
	slices.SortFunc(objects, func(a, b object) int {
		if c := a.prefix.Addr().Compare(b.prefix.Addr()); c != 0 && q.query.Get("ordering") != "id" {
			return c
		}
		return cmp.Compare(a.id, b.id)
	})
	limit, _ := strconv.Atoi(cmp.Or(q.query.Get("limit"), "50"))
	total, limit := len(objects), min(limit, s.MaxPageSize)
	results := []any{}
	for _, o := range objects[:min(limit, total)] {
		results = append(results, trim(o.rendered, q.query))
	}
	var next any
	if limit < total {
		q.query.Set("limit", fmt.Sprint(limit))
		q.query.Set("offset", fmt.Sprint(limit))
		next = q.base + q.r.URL.Path + "?" + q.query.Encode()
	}
	return list(total, next, results), nil
}

// trim removes all fields but those that a parameter requests.
func trim(full map[string]any, query url.Values) map[string]any {
	if query.Get("fields") == "" {
		return full
	}
	part := map[string]any{}
	for _, name := range strings.Split(query.Get("fields"), ",") {
		if value, known := full[name]; known {
			part[name] = value
		}
	}
	return part
}

func (s *Server) listAddresses(q *question) (*answer, error) {
	var objects []object
	for _, a := range s.db.addresses {
		objects = append(objects, object{a.ID, a.Prefix, s.db.find(vrfs, a.VRF), a, s.renderAddress(a)})
	}
	return s.page(q, objects)
}

func (s *Server) readAddress(q *question) (*answer, error) {
	a := s.db.address(q.id)
	if a == nil {
		return nil, noMatch("IPAddress")
	}
	return &answer{status: http.StatusOK, body: trim(s.renderAddress(*a), q.query), etag: s.etag(*a)}, nil
}

func noMatch(class string) *failure {
	return detail(http.StatusNotFound, fmt.Sprintf("No %s matches the given query.", class))
}

func (s *Server) listBlocks(q *question) (*answer, error) {
	var objects []object
	for _, b := range s.db.blocks {
		if b.kind() == q.kind {
			objects = append(objects, object{id: b.ID, prefix: b.Prefix, vrf: s.db.find(vrfs, b.VRF), rendered: s.renderBlock(b)})
		}
	}
	return s.page(q, objects)
}

func (s *Server) readBlock(q *question) (*answer, error) {
	b := s.db.block(q.kind, q.id)
	if b == nil {
		return nil, noMatch(q.kind.class)
	}
	return ok(s.renderBlock(*b)), nil
}

// listNamed lists tenants or tags by slug.
func (s *Server) listNamed(q *question) (*answer, error) {
	results := []any{}
	if n := s.db.find(q.kind, q.query.Get("slug")); n != nil {
		results = append(results, n.render())
	}
	return list(len(results), nil, results), nil
}

// listFields lists the custom fields of a name.
func (s *Server) listFields(q *question) (*answer, error) {
	results := []any{}
	if f := s.db.field(q.query.Get("name")); f != nil {
		results = append(results, f.render())
	}
	return list(len(results), nil, results), nil
}

func list(total int, next any, results []any) *answer {
	return ok(map[string]any{"count": total, "next": next, "previous": nil, "results": results})
}
