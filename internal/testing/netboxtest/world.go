package netboxtest

import (
	"slices"
)

func (s *Server) add(n named) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.id = s.db.next(n.kind, 0)
	s.db.named = append(s.db.named, n)
	return n.id
}

// AddVRF adds a VRF. rd may be "".
func (s *Server) AddVRF(name, rd string, unique bool) int64 {
	return s.add(named{kind: vrfs, name: name, rd: rd, unique: unique})
}

// AddTenant adds a tenant.
func (s *Server) AddTenant(name, slug string) int64 {
	return s.add(named{kind: tenants, name: name, slug: slug})
}

// AddTag adds a tag.
func (s *Server) AddTag(name, slug, color string) int64 {
	return s.add(named{kind: tags, name: name, slug: slug, color: color})
}

// AddRole adds a role of prefixes and ranges.
func (s *Server) AddRole(name, slug string) int64 {
	return s.add(named{kind: roles, name: name, slug: slug})
}

// AddSite adds a site.
func (s *Server) AddSite(name, slug string) int64 {
	return s.add(named{kind: sites, name: name, slug: slug})
}

// AddField adds a custom field of text. If f names no object types, it is a field of IP addresses.
func (s *Server) AddField(f CustomField) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.db.addField(f)
}

// RemoveField removes a custom field together with its filter.
func (s *Server) RemoveField(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db.fields = slices.DeleteFunc(s.db.fields, func(f CustomField) bool { return f.Name == name })
}

// AddBlock adds a prefix or an IP range.
func (s *Server) AddBlock(b Block) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Status == "" {
		b.Status = "active"
	}
	b.ID = s.db.next(kindOfBlock(b.isRange()), b.ID)
	s.db.blocks = append(s.db.blocks, b)
	return b.ID
}

// ChangeBlock changes a prefix or range.
func (s *Server) ChangeBlock(ranges bool, id int64, change func(*Block)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.db.block(ranges, id))
}

// RemoveBlock removes a prefix or range. Its addresses stay.
func (s *Server) RemoveBlock(ranges bool, id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db.removeBlock(ranges, id)
}

// AddAddress adds an address without any check, as other users of NetBox do.
func (s *Server) AddAddress(a Address) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.db.addAddress(a, s.Now())
}

// ChangeAddress changes an address, as other users of NetBox do.
func (s *Server) ChangeAddress(id int64, change func(*Address)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.db.addresses {
		if s.db.addresses[i].ID == id {
			change(&s.db.addresses[i])
			s.db.addresses[i].updated = s.Now()
		}
	}
}

// RemoveAddress removes an address.
func (s *Server) RemoveAddress(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db.removeAddress(id)
}

// NextID sets the id of the next new address.
func (s *Server) NextID(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db.last["addresses"] = id - 1
}

// Addresses returns all addresses that NetBox holds, ascending.
func (s *Server) Addresses() []Address {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.db.addresses)
	slices.SortFunc(list, byNumber)
	return list
}
