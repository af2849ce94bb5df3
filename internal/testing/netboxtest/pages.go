package netboxtest

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// page renders a part of a list.
func (s *Server) page(q *question, objects []object, objectType string) (*answer, error) {
	query := q.r.URL.Query()
	objects, err := s.selectObjects(objects, query, objectType)
	if err != nil {
		return nil, err
	}
	if start := query.Get("start"); start != "" && !s.before("4.6.0") {
		return s.cursorPage(q, objects, start)
	}
	order(objects, query.Get("ordering"))
	offset, _ := strconv.Atoi(query.Get("offset"))
	limit := s.limit(query)
	total := len(objects)
	part := objects[min(offset, total):min(offset+limit, total)]
	var next any
	if offset+limit < total {
		query.Set("limit", fmt.Sprint(limit))
		query.Set("offset", fmt.Sprint(offset+limit))
		next = q.base + q.r.URL.Path + "?" + query.Encode()
	}
	var previous any
	if offset > 0 && total > 0 {
		query.Set("limit", fmt.Sprint(limit))
		query.Set("offset", fmt.Sprint(max(0, offset-limit)))
		if offset-limit <= 0 {
			query.Del("offset")
		}
		previous = q.base + q.r.URL.Path + "?" + query.Encode()
	}
	return ok(map[string]any{"count": total, "next": next, "previous": previous, "results": s.results(part, query)}), nil
}

// cursorPage returns a page that begins at an id, as 4.6 does.
func (s *Server) cursorPage(q *question, objects []object, start string) (*answer, error) {
	query := q.r.URL.Query()
	if query.Has("offset") {
		return nil, &failure{status: http.StatusBadRequest, body: []string{"'start' and 'offset' are mutually exclusive."}}
	}
	if query.Has("ordering") {
		return nil, &failure{status: http.StatusBadRequest, body: []string{"Ordering cannot be specified in conjunction with cursor-based pagination."}}
	}
	from, _ := strconv.ParseInt(start, 10, 64)
	order(objects, "id")
	objects = slices.DeleteFunc(objects, func(o object) bool { return o.id < from })
	limit := s.limit(query)
	part := objects[:min(limit, len(objects))]
	var next any
	if len(objects) > limit {
		query.Set("limit", fmt.Sprint(limit))
		query.Set("start", fmt.Sprint(part[len(part)-1].id+1))
		next = q.base + q.r.URL.Path + "?" + query.Encode()
	}
	return ok(map[string]any{"count": nil, "next": next, "previous": nil, "results": s.results(part, query)}), nil
}

func (s *Server) limit(query url.Values) int {
	limit, err := strconv.Atoi(query.Get("limit"))
	switch {
	case err != nil || limit < 0:
		limit = 50
	case limit == 0:
		limit = s.MaxPageSize
	}
	return min(limit, s.MaxPageSize)
}

func order(objects []object, by string) {
	slices.SortStableFunc(objects, func(a, b object) int {
		switch by {
		case "id":
			return cmp.Compare(a.id, b.id)
		case "-id":
			return cmp.Compare(b.id, a.id)
		}
		if a.block != nil && !a.block.isRange() && (a.vrf == nil) != (b.vrf == nil) {
			return cmp.Compare(boolInt(a.vrf != nil), boolInt(b.vrf != nil))
		}
		if c := a.first.Addr().Compare(b.first.Addr()); c != 0 {
			return c
		}
		return cmp.Compare(a.id, b.id)
	})
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (s *Server) results(objects []object, query url.Values) []any {
	list := []any{}
	for _, o := range objects {
		list = append(list, s.trim(o.rendered, query))
	}
	return list
}

// trim removes all fields but those that a parameter requests.
func (s *Server) trim(full map[string]any, query url.Values) map[string]any {
	var keep []string
	switch {
	case query.Get("fields") != "":
		keep = strings.Split(query.Get("fields"), ",")
	case query.Has("brief"):
		keep = strings.Fields("id url display family address prefix start_address end_address description")
	case query.Get("omit") != "" && !s.before("4.5.2"):
		for name := range full {
			if !slices.Contains(strings.Split(query.Get("omit"), ","), name) {
				keep = append(keep, name)
			}
		}
	default:
		return full
	}
	part := map[string]any{}
	for _, name := range keep {
		if value, ok := full[name]; ok {
			part[name] = value
		}
	}
	return part
}
