package netboxtest

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
)

func (s *Server) blockObject(b *Block, base string) object {
	return object{id: b.ID, first: b.Prefix, vrf: s.db.find(vrfs, b.VRF), block: b, tags: b.Tags, tenant: b.Tenant,
		status: b.Status, role: b.Role, fields: b.Fields, rendered: s.renderBlock(*b, base)}
}

func (s *Server) addressObject(a *Address, base string) object {
	return object{id: a.ID, first: a.Prefix, vrf: s.db.find(vrfs, a.VRF), address: a, tags: a.Tags, tenant: a.Tenant,
		status: a.Status, role: a.Role, fields: a.Fields, rendered: s.renderAddress(*a, base)}
}

// blockKind returns the right to view a kind of blocks, its type and its class.
func blockKind(ranges bool) (right, objectType, class string) {
	if ranges {
		return "ipam.view_iprange", "ipam.iprange", "IPRange"
	}
	return "ipam.view_prefix", "ipam.prefix", "Prefix"
}

func (s *Server) listBlocks(q *question) (*answer, error) {
	right, objectType, _ := blockKind(q.ranges)
	if err := q.token.may(right); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var objects []object
	for i := range s.db.blocks {
		if b := &s.db.blocks[i]; b.isRange() == q.ranges {
			objects = append(objects, s.blockObject(b, q.base))
		}
	}
	return s.page(q, objects, objectType)
}

func (s *Server) readBlock(q *question) (*answer, error) {
	right, _, class := blockKind(q.ranges)
	if err := q.token.may(right); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.db.block(q.ranges, q.id)
	if b == nil {
		return nil, noMatch(class)
	}
	return ok(s.trim(s.renderBlock(*b, q.base), q.r.URL.Query())), nil
}

func noMatch(class string) *failure {
	return detail(http.StatusNotFound, fmt.Sprintf("No %s matches the given query.", class))
}

// available lists or makes addresses of a block.
func (s *Server) available(q *question) (*answer, error) {
	if q.r.Method == http.MethodPost {
		return s.allocate(q)
	}
	if err := q.token.may("ipam.view_ipaddress"); err != nil {
		return nil, err
	}
	right, _, class := blockKind(q.ranges)
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.db.block(q.ranges, q.id)
	if b == nil || q.token.may(right) != nil {
		return nil, noMatch(class)
	}
	list := []any{}
	for _, a := range s.free(*b, s.limitOfFree(q)) {
		list = append(list, map[string]any{"family": familyNumber(a), "address": netip.PrefixFrom(a, b.Prefix.Bits()).String(), "vrf": s.reference(vrfs, b.VRF, q.base)})
	}
	return ok(list), nil
}

func (s *Server) limitOfFree(q *question) int {
	limit, err := strconv.Atoi(q.r.URL.Query().Get("limit"))
	if err != nil || limit == 0 {
		return s.MaxPageSize
	}
	return min(limit, s.MaxPageSize)
}

func familyNumber(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}

// addressList lists, makes, changes or removes several addresses.
func (s *Server) addressList(q *question) (*answer, error) {
	switch q.r.Method {
	case http.MethodGet:
		return s.listAddresses(q)
	case http.MethodPost:
		return s.postAddresses(q)
	case http.MethodDelete:
		return s.bulkDelete(q)
	default:
		return nil, detail(http.StatusNotImplemented, "netboxtest does not know bulk changes")
	}
}

func (s *Server) listAddresses(q *question) (*answer, error) {
	if err := q.token.may("ipam.view_ipaddress"); err != nil {
		return nil, err
	}
	s.work(q.r, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	var objects []object
	for i := range s.db.addresses {
		if a := &s.db.addresses[i]; q.token.sees(*a) {
			objects = append(objects, s.addressObject(a, q.base))
		}
	}
	return s.page(q, objects, "ipam.ipaddress")
}

// bulkDelete silently skips objects that do not exist or that the token may not remove.
func (s *Server) bulkDelete(q *question) (*answer, error) {
	if err := q.token.may("ipam.delete_ipaddress"); err != nil {
		return nil, err
	}
	list, isList := q.body.([]any)
	if !isList {
		return nil, &failure{status: http.StatusBadRequest, body: map[string]any{"non_field_errors": []string{`Expected a list of items but got type "dict".`}}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, entry := range list {
		fields, _ := entry.(map[string]any)
		id, given := fields["id"].(float64)
		if !given {
			return nil, &failure{status: http.StatusBadRequest, body: []any{map[string]any{"id": []string{"This field is required."}}}}
		}
		if a := s.visible(q, int64(id)); a != nil && q.token.writes(*a) {
			s.db.removeAddress(int64(id))
		}
	}
	return &answer{status: http.StatusNoContent}, nil
}

// visible returns the address with the id if the token may see it.
func (s *Server) visible(q *question, id int64) *Address {
	i := slices.IndexFunc(s.db.addresses, func(a Address) bool { return a.ID == id })
	if i < 0 || !q.token.sees(s.db.addresses[i]) {
		return nil
	}
	return &s.db.addresses[i]
}

// oneAddress reads, changes or removes one address. Changes wait for the lock.
func (s *Server) oneAddress(q *question) (*answer, error) {
	if q.r.Method == http.MethodGet {
		return s.readAddress(q)
	}
	right := map[string]string{http.MethodPatch: "ipam.change_ipaddress", http.MethodPut: "ipam.change_ipaddress", http.MethodDelete: "ipam.delete_ipaddress"}[q.r.Method]
	if right == "" {
		return nil, detail(http.StatusMethodNotAllowed, fmt.Sprintf("Method %q not allowed.", q.r.Method))
	}
	if err := q.token.may(right); err != nil {
		return nil, err
	}
	<-s.lock
	defer func() { s.lock <- struct{}{} }()
	s.work(q.r, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.visible(q, q.id)
	if a == nil || !q.token.writes(*a) {
		return nil, noMatch("IPAddress")
	}
	if condition := q.r.Header.Get("If-Match"); condition != "" && condition != "*" && !s.before("4.6.0") && condition != s.etag(*a) {
		return nil, &failure{status: http.StatusPreconditionFailed, body: map[string]any{"detail": "Precondition failed."}, etag: s.etag(*a)}
	}
	if q.r.Method == http.MethodDelete {
		s.db.removeAddress(a.ID)
		return &answer{status: http.StatusNoContent}, nil
	}
	return s.change(q, a)
}

func (s *Server) readAddress(q *question) (*answer, error) {
	if err := q.token.may("ipam.view_ipaddress"); err != nil {
		return nil, err
	}
	s.work(q.r, 0)
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.visible(q, q.id)
	if a == nil {
		return nil, noMatch("IPAddress")
	}
	return &answer{status: http.StatusOK, body: s.trim(s.renderAddress(*a, q.base), q.r.URL.Query()), etag: s.etag(*a)}, nil
}

// customFields lists the custom fields or makes one.
func (s *Server) customFields(q *question) (*answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.r.Method == http.MethodPost {
		return s.makeField(q)
	}
	if err := q.token.may("extras.view_customfield"); err != nil {
		return nil, err
	}
	results := []any{}
	for _, f := range s.db.fields {
		if names := q.r.URL.Query()["name"]; len(names) == 0 || slices.Contains(names, f.Name) {
			results = append(results, s.renderField(f, q.base))
		}
	}
	return ok(map[string]any{"count": len(results), "next": nil, "previous": nil, "results": results}), nil
}

func (s *Server) makeField(q *question) (*answer, error) {
	if err := q.token.may("extras.add_customfield"); err != nil {
		return nil, err
	}
	body, _ := q.body.(map[string]any)
	text := func(name string) string { v, _ := body[name].(string); return v }
	f := CustomField{Name: text("name"), Type: text("type"), FilterLogic: text("filter_logic"), label: text("label"), text: text("description")}
	f.Unique, _ = body["unique"].(bool)
	types, _ := body["object_types"].([]any)
	for _, t := range types {
		f.ObjectTypes = append(f.ObjectTypes, fmt.Sprint(t))
	}
	if s.db.field(f.Name) != nil {
		return nil, &failure{status: http.StatusBadRequest, body: map[string]any{"name": []string{"custom field with this name already exists."}}}
	}
	f.ID = s.db.addField(f)
	return &answer{status: http.StatusCreated, body: s.renderField(*s.db.field(f.Name), q.base), place: fmt.Sprintf("%s%s%d/", q.base, q.r.URL.Path, f.ID)}, nil
}

// listNamed lists VRFs, tenants or tags by name or slug.
func (s *Server) listNamed(q *question) (*answer, error) {
	kind := kindOf(q)
	right := map[string]string{vrfs: "ipam.view_vrf", tenants: "tenancy.view_tenant", tags: "extras.view_tag"}[kind]
	if err := q.token.may(right); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	query := q.r.URL.Query()
	results := []any{}
	for _, n := range s.db.named {
		if n.kind != kind || query.Has("slug") && !slices.Contains(query["slug"], n.slug) || query.Has("name") && !slices.Contains(query["name"], n.name) {
			continue
		}
		results = append(results, s.trim(n.full(q.base), query))
	}
	return ok(map[string]any{"count": len(results), "next": nil, "previous": nil, "results": results}), nil
}
