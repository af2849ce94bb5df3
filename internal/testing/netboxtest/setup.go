package netboxtest

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// kindOf returns the kind of named objects that a request addresses.
func kindOf(q *question) string {
	path := strings.TrimPrefix(q.r.URL.Path, "/api/")
	return strings.Join(strings.Split(path, "/")[:2], "/")
}

// namedList lists named objects or makes one.
func (s *Server) namedList(q *question) (*answer, error) {
	if q.r.Method == http.MethodGet {
		return s.listNamed(q)
	}
	if q.token.Rights != nil {
		return nil, errForbidden
	}
	body, _ := q.body.(map[string]any)
	text := func(name string) string { v, _ := body[name].(string); return v }
	n := named{kind: kindOf(q), name: text("name"), slug: text("slug"), rd: text("rd"), color: text("color"), unique: body["enforce_unique"] != false}
	if n.kind == tags && n.color == "" {
		n.color = "9e9e9e"
	}
	n.id = s.add(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	return &answer{status: http.StatusCreated, body: n.full(q.base), place: fmt.Sprintf("%s%s%d/", q.base, q.r.URL.Path, n.id)}, nil
}

// full is the form of n in lists and in the reply to a POST.
func (n *named) full(base string) map[string]any {
	m := n.brief(base).(map[string]any)
	m["display_url"], m["description"], m["tags"], m["custom_fields"] = fmt.Sprintf("%s/%s/%d/", base, n.kind, n.id), "", []any{}, map[string]any{}
	if n.kind != tags {
		m["comments"] = ""
	}
	switch n.kind {
	case vrfs:
		m["tenant"], m["enforce_unique"], m["import_targets"], m["export_targets"] = nil, n.unique, []any{}, []any{}
	case tenants:
		m["group"] = nil
	case tags:
		m["object_types"] = []any{}
		delete(m, "tags")
		delete(m, "custom_fields")
	}
	return m
}

// blockList lists prefixes or ranges, or makes one.
func (s *Server) blockList(q *question) (*answer, error) {
	if q.r.Method == http.MethodGet {
		return s.listBlocks(q)
	}
	if q.token.Rights != nil {
		return nil, errForbidden
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b, wrong := s.readNewBlock(q)
	if err := badRequest(false, []problems{wrong}); err != nil {
		return nil, err
	}
	b.ID = s.db.next(kindOfBlock(q.ranges), 0)
	s.db.blocks = append(s.db.blocks, b)
	return &answer{status: http.StatusCreated, body: s.renderBlock(b, q.base), place: fmt.Sprintf("%s%s%d/", q.base, q.r.URL.Path, b.ID)}, nil
}

func kindOfBlock(ranges bool) string {
	if ranges {
		return "ip-ranges"
	}
	return "prefixes"
}

// readNewBlock reads the body of a POST, and compares it with the stored blocks.
func (s *Server) readNewBlock(q *question) (Block, problems) {
	body, _ := q.body.(map[string]any)
	wrong := problems{}
	b := Block{Status: "active", Fields: map[string]any{}}
	s.applyChoice(body, "status", &b.Status, []string{"container", "active", "reserved", "deprecated"}, wrong)
	s.applyReference(q, body, "vrf", vrfs, &b.VRF, wrong)
	s.applyReference(q, body, "tenant", tenants, &b.Tenant, wrong)
	s.applyReference(q, body, "role", roles, &b.Role, wrong)
	tagged := Address{}
	s.applyTags(q, &tagged, body, wrong)
	b.Tags = tagged.Tags
	b.Fields, _ = body["custom_fields"].(map[string]any)
	b.Description, _ = body["description"].(string)
	b.IsPool, b.Utilized, b.Populated = body["is_pool"] == true, body["mark_utilized"] == true, body["mark_populated"] == true
	number := func(name string) netip.Prefix {
		text, _ := body[name].(string)
		p, err := netip.ParsePrefix(text)
		if err != nil {
			wrong.add(name, "Invalid IP address format: %s", text)
		}
		return p
	}
	if q.ranges {
		b.Prefix, b.End = number("start_address"), number("end_address").Addr()
	} else {
		b.Prefix = number("prefix")
	}
	if len(wrong) == 0 {
		s.compareBlock(b, wrong)
	}
	return b, wrong
}

func (s *Server) compareBlock(b Block, wrong problems) {
	table := s.table(b.VRF)
	for _, o := range s.db.blocks {
		switch {
		case o.VRF != b.VRF || o.isRange() != b.isRange():
		case !b.isRange() && o.Prefix == b.Prefix:
			wrong.add("prefix", "Duplicate prefix found in %s: %s", table, o.Prefix)
		case b.isRange() && (o.contains(b.Prefix.Addr()) || o.contains(b.End) || b.contains(o.End)):
			wrong.add("__all__", "Defined addresses overlap with range %s in %s", o.display(), table)
		}
	}
}

// oneBlock reads or removes a prefix or range. Its addresses stay.
func (s *Server) oneBlock(q *question) (*answer, error) {
	if q.r.Method == http.MethodGet {
		return s.readBlock(q)
	}
	if q.token.Rights != nil {
		return nil, errForbidden
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _, class := blockKind(q.ranges)
	if s.db.block(q.ranges, q.id) == nil {
		return nil, noMatch(class)
	}
	s.db.removeBlock(q.ranges, q.id)
	return &answer{status: http.StatusNoContent}, nil
}
