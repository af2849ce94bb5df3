package netboxtest

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
)

// entries returns the objects of a body, and whether it is a list.
func entries(body any) ([]any, bool) {
	switch body := body.(type) {
	case nil:
		return []any{map[string]any{}}, false
	case []any:
		return body, true
	default:
		return []any{body}, false
	}
}

// allocate makes addresses from a block, all or none. The caller holds the lock.
func (s *Server) allocate(q *question) (*answer, error) {
	if err := q.token.may("ipam.add_ipaddress"); err != nil {
		return nil, err
	}
	right, _, class := blockKind(q.ranges)
	list, isList := entries(q.body)
	<-s.lock
	defer func() { s.lock <- struct{}{} }()
	s.work(q.r, len(list))
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.db.block(q.ranges, q.id)
	if b == nil || q.token.may(right) != nil {
		return nil, noMatch(class)
	}
	if err := s.firstStage(list, b.Prefix.Bits()); err != nil {
		return nil, err
	}
	free := s.free(*b, len(list))
	if len(free) < len(list) {
		return nil, detail(http.StatusConflict, "Insufficient resources are available to satisfy the request")
	}
	for i, entry := range list {
		fields := entry.(map[string]any)
		bits := b.Prefix.Bits()
		if wanted, given := fields["prefix_length"].(float64); given && !s.before("4.5.1") {
			bits = int(wanted)
		}
		fields["address"] = netip.PrefixFrom(free[i], bits).String()
		fields["vrf"] = nil
		if v := s.db.find(vrfs, b.VRF); v != nil {
			fields["vrf"] = float64(v.id)
		}
	}
	return s.create(q, list, isList, false)
}

// firstStage does the checks that answer with a list even for a single object.
func (s *Server) firstStage(list []any, bits int) error {
	all := make([]problems, len(list))
	for i, entry := range list {
		fields, isObject := entry.(map[string]any)
		all[i] = problems{}
		if !isObject {
			kind := map[string]string{"string": "str", "float64": "int"}[fmt.Sprintf("%T", entry)]
			all[i].add("non_field_errors", "Invalid data. Expected a dictionary, but got %s.", kind)
			continue
		}
		if _, wrong := fields["description"].(map[string]any); wrong {
			all[i].add("description", "Not a valid string.")
		}
		if wanted, given := fields["prefix_length"].(float64); given && !s.before("4.5.1") && int(wanted) < bits {
			all[i]["prefix_length"] = fmt.Sprintf("Prefix length must be greater than or equal to the parent mask length (%d)", bits)
		} else if given && !s.before("4.5.1") && bits <= 32 && wanted > 32 {
			all[i]["prefix_length"] = fmt.Sprintf("Invalid prefix length (%d) for IPv6", int(wanted))
		}
	}
	return badRequest(true, all)
}

// postAddresses makes addresses that the client names.
func (s *Server) postAddresses(q *question) (*answer, error) {
	if err := q.token.may("ipam.add_ipaddress"); err != nil {
		return nil, err
	}
	list, isList := entries(q.body)
	<-s.lock
	defer func() { s.lock <- struct{}{} }()
	s.work(q.r, len(list))
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.create(q, list, isList, true)
}

// create makes all addresses of a list, or none. It compares each address with the stored ones, not
// with the others of the list.
func (s *Server) create(q *question, list []any, isList, withPlace bool) (*answer, error) {
	var made []Address
	var all []problems
	for _, entry := range list {
		fields, _ := entry.(map[string]any)
		a := Address{Status: "active", Fields: map[string]any{}}
		wrong, err := s.apply(q, &a, fields, true)
		if err != nil {
			return nil, err
		}
		made, all = append(made, a), append(all, wrong)
	}
	if err := badRequest(isList, all); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(made, func(a Address) bool { return !q.token.writes(a) }) {
		return nil, errForbidden
	}
	results := []any{}
	a := &answer{status: http.StatusCreated}
	for _, one := range made {
		one.ID = s.db.addAddress(one, s.Now())
		stored := s.db.addresses[len(s.db.addresses)-1]
		results = append(results, s.renderAddress(stored, q.base))
		if withPlace && !isList {
			a.place, a.etag = fmt.Sprintf("%s/api/ipam/ip-addresses/%d/", q.base, one.ID), s.etag(stored)
		}
	}
	a.body = results
	if !isList {
		a.body = results[0]
	}
	return a, nil
}

// change changes one address as the body of a PATCH or PUT says.
func (s *Server) change(q *question, a *Address) (*answer, error) {
	fields, _ := q.body.(map[string]any)
	changed := *a
	changed.Fields = maps.Clone(a.Fields)
	wrong, err := s.apply(q, &changed, fields, false)
	if err != nil {
		return nil, err
	}
	if err := badRequest(false, []problems{wrong}); err != nil {
		return nil, err
	}
	if !q.token.writes(changed) {
		return nil, errForbidden
	}
	changed.updated = s.Now()
	*a = changed
	return &answer{status: http.StatusOK, body: s.renderAddress(*a, q.base), etag: s.etag(*a)}, nil
}
