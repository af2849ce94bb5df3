package netboxtest

import (
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// labels are the names of choices for people. Other choices show their value with a capital letter.
var labels = map[string]string{"dhcp": "DHCP", "slaac": "SLAAC", "vip": "VIP", "vrrp": "VRRP", "hsrp": "HSRP", "glbp": "GLBP", "carp": "CARP"}

func choice(value string) any {
	if value == "" {
		return nil
	}
	label, known := labels[value]
	if !known {
		label = strings.ToUpper(value[:1]) + value[1:]
	}
	return map[string]any{"value": value, "label": label}
}

func family(a netip.Addr) any {
	if a.Is4() {
		return map[string]any{"value": 4, "label": "IPv4"}
	}
	return map[string]any{"value": 6, "label": "IPv6"}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// etag returns the ETag of an address, which 4.6 has.
func (s *Server) etag(a Address) string {
	if s.before("4.6.0") {
		return ""
	}
	return fmt.Sprintf(`W/"%s"`, a.updated.UTC().Format("2006-01-02T15:04:05.000000+00:00"))
}

// brief is the form in which other objects refer to n.
func (n *named) brief(base string) any {
	if n == nil {
		return nil
	}
	m := map[string]any{"id": n.id, "url": fmt.Sprintf("%s/api/%s/%d/", base, n.kind, n.id), "display": n.display(), "name": n.name}
	switch n.kind {
	case vrfs:
		m["rd"], m["description"] = n.distinguisher(), ""
	case tags:
		m["slug"], m["color"] = n.slug, n.color
		m["display_url"] = fmt.Sprintf("%s/%s/%d/", base, n.kind, n.id)
	default:
		m["slug"], m["description"] = n.slug, ""
	}
	return m
}

func (n *named) display() string {
	if n.rd != "" {
		return n.name + " (" + n.rd + ")"
	}
	return n.name
}

func (n *named) distinguisher() any {
	if n.rd == "" {
		return nil
	}
	return n.rd
}

func (s *Server) reference(kind, slug, base string) any { return s.db.find(kind, slug).brief(base) }

func (s *Server) tagList(slugs []string, base string) any {
	list := []any{}
	for _, slug := range slugs {
		list = append(list, s.reference(tags, slug, base))
	}
	return list
}

// renderAddress writes an address as the API does.
func (s *Server) renderAddress(a Address, base string) map[string]any {
	m := map[string]any{
		"id":          a.ID,
		"url":         fmt.Sprintf("%s/api/ipam/ip-addresses/%d/", base, a.ID),
		"display_url": fmt.Sprintf("%s/ipam/ip-addresses/%d/", base, a.ID),
		"display":     a.Prefix.String(), "address": a.Prefix.String(), "family": family(a.ip()),
		"vrf": s.reference(vrfs, a.VRF, base), "tenant": s.reference(tenants, a.Tenant, base),
		"status": choice(a.Status), "role": choice(a.Role),
		"assigned_object_type": nil, "assigned_object_id": nil, "assigned_object": nil,
		"nat_inside": nil, "nat_outside": []any{},
		"dns_name": a.DNSName, "description": a.Description, "comments": a.Comments,
		"tags": s.tagList(a.Tags, base), "custom_fields": s.db.fieldsOf("ipam.ipaddress", a.Fields),
		"created": stamp(a.created), "last_updated": stamp(a.updated),
	}
	if !s.before("4.5.0") {
		m["owner"] = nil
	}
	return m
}

// renderBlock writes a prefix or range as the API does, as far as clients need it.
func (s *Server) renderBlock(b Block, base string) map[string]any {
	kind, objectType := "prefixes", "ipam.prefix"
	if b.isRange() {
		kind, objectType = "ip-ranges", "ipam.iprange"
	}
	m := map[string]any{
		"id":          b.ID,
		"url":         fmt.Sprintf("%s/api/ipam/%s/%d/", base, kind, b.ID),
		"display_url": fmt.Sprintf("%s/ipam/%s/%d/", base, kind, b.ID),
		"display":     b.display(), "family": family(b.Prefix.Addr()),
		"vrf": s.reference(vrfs, b.VRF, base), "tenant": s.reference(tenants, b.Tenant, base), "role": s.reference(roles, b.Role, base),
		"status": choice(b.Status), "mark_utilized": b.Utilized, "description": b.Description, "comments": "",
		"tags": s.tagList(b.Tags, base), "custom_fields": s.db.fieldsOf(objectType, b.Fields),
	}
	if b.isRange() {
		m["start_address"], m["end_address"] = b.Prefix.String(), netip.PrefixFrom(b.End, b.Prefix.Bits()).String()
		m["size"], m["mark_populated"] = len(s.span(b)), b.Populated
		return m
	}
	m["prefix"], m["is_pool"], m["vlan"] = b.Prefix.String(), b.IsPool, nil
	m["scope_type"], m["scope_id"], m["scope"] = nil, nil, nil
	if site := s.db.find(sites, b.Site); site != nil {
		m["scope_type"], m["scope_id"], m["scope"] = "dcim.site", site.id, site.brief(base)
	}
	return m
}

// span lists the addresses of a range.
func (s *Server) span(b Block) []netip.Addr {
	var list []netip.Addr
	for a := b.Prefix.Addr(); !b.End.Less(a); a = a.Next() {
		list = append(list, a)
	}
	return list
}

// display is the text for people: "192.0.2.1-9/24".
func (b Block) display() string {
	if !b.isRange() {
		return b.Prefix.String()
	}
	first, last := b.Prefix.Addr().String(), b.End.String()
	separator := "."
	if !b.End.Is4() {
		separator = ":"
	}
	if i := strings.LastIndex(last, separator); strings.HasPrefix(first, last[:i+1]) {
		last = last[i+1:]
	}
	return fmt.Sprintf("%s-%s/%d", first, last, b.Prefix.Bits())
}

func (s *Server) renderField(f CustomField, base string) map[string]any {
	label := map[string]string{"text": "Text", "integer": "Integer"}[f.Type]
	filter := map[string]string{"exact": "Exact", "loose": "Loose", "disabled": "Disabled"}[f.FilterLogic]
	display := f.label
	if display == "" {
		display = strings.ToUpper(f.Name[:1]) + strings.ReplaceAll(f.Name[1:], "_", " ")
	}
	return map[string]any{
		"id": f.ID, "url": fmt.Sprintf("%s/api/extras/custom-fields/%d/", base, f.ID),
		"display": display, "object_types": f.ObjectTypes, "name": f.Name, "label": f.label, "description": f.text,
		"type": map[string]any{"value": f.Type, "label": label}, "data_type": "string",
		"required": false, "unique": f.Unique, "filter_logic": map[string]any{"value": f.FilterLogic, "label": filter},
	}
}
