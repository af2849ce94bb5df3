package netboxtest

import (
	"fmt"
	"net/netip"
	"strings"
)

func choice(value string) any {
	if value == "" {
		return nil
	}
	return map[string]any{"value": value}
}

// etag returns the ETag of an address, which 4.6 has.
func (s *Server) etag(a Address) string {
	if s.before("4.6.0") {
		return ""
	}
	return fmt.Sprintf(`W/"%s"`, a.updated.UTC().Format("2006-01-02T15:04:05.000000+00:00"))
}

// render is the form in which other objects refer to n.
func (n *named) render() any {
	switch {
	case n == nil:
		return nil
	case n.kind != vrfs:
		return map[string]any{"id": n.id, "name": n.name, "slug": n.slug}
	case n.rd == "":
		return map[string]any{"id": n.id, "name": n.name, "rd": nil}
	}
	return map[string]any{"id": n.id, "name": n.name, "rd": n.rd}
}

func (n *named) display() string {
	if n.rd != "" {
		return n.name + " (" + n.rd + ")"
	}
	return n.name
}

// renderAddress writes an address as the API does, as far as the driver needs it.
func (s *Server) renderAddress(a Address) map[string]any {
	tagged, fields := []any{}, map[string]any{}
	for _, slug := range a.Tags {
		tagged = append(tagged, s.db.find(tags, slug).render())
	}
	for _, f := range s.db.fields {
		if f.ofAddresses() {
			fields[f.Name] = a.Fields[f.Name]
		}
	}
	return map[string]any{
		"id": a.ID, "address": a.Prefix.String(),
		"vrf": s.db.find(vrfs, a.VRF).render(), "tenant": s.db.find(tenants, a.Tenant).render(),
		"status": choice(a.Status), "role": choice(a.Role),
		"dns_name": a.DNSName, "description": a.Description, "tags": tagged, "custom_fields": fields,
		"created": a.created.UTC().Format("2006-01-02T15:04:05.000000Z"),
	}
}

// renderBlock writes a prefix or range as the API does, as far as the driver needs it.
func (s *Server) renderBlock(b Block) map[string]any {
	vrf := s.db.find(vrfs, b.VRF).render()
	if b.isRange() {
		return map[string]any{"id": b.ID, "vrf": vrf, "mark_populated": b.Populated,
			"start_address": b.Prefix.String(), "end_address": netip.PrefixFrom(b.End, b.Prefix.Bits()).String()}
	}
	return map[string]any{"id": b.ID, "vrf": vrf, "is_pool": b.IsPool, "prefix": b.Prefix.String()}
}

// display is the text for people: "192.0.2.1-9/24".
func (b Block) display() string {
	first, last := b.Prefix.Addr().String(), b.End.String()
	if i := strings.LastIndexAny(last, ".:"); strings.HasPrefix(first, last[:i+1]) {
		last = last[i+1:]
	}
	return fmt.Sprintf("%s-%s/%d", first, last, b.Prefix.Bits())
}

func (f *CustomField) render() any {
	return map[string]any{"id": f.ID, "name": f.Name, "object_types": f.ObjectTypes, "unique": f.Unique,
		"type": choice(f.Type), "filter_logic": choice(f.FilterLogic)}
}
