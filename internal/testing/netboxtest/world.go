package netboxtest

import (
	"slices"
)

func (s *Server) add(n named) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n.id = s.db.next(n.kind.path, 0)
	s.db.named = append(s.db.named, n)
	return n.id
}

// AddVRF adds a VRF, in which addresses are unique. rd may be "".
func (s *Server) AddVRF(name, rd string) int64 {
	return s.add(named{kind: vrfs, name: name, slug: name, rd: rd})
}

// AddTenant adds a tenant.
func (s *Server) AddTenant(name, slug string) int64 {
	return s.add(named{kind: tenants, name: name, slug: slug})
}

// AddTag adds a tag.
func (s *Server) AddTag(name, slug string) int64 {
	return s.add(named{kind: tags, name: name, slug: slug})
}

// AddField adds a custom field of text. If f names no object types, it is a field of IP addresses.
func (s *Server) AddField(f CustomField) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db.addField(f)
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
	b.ID = s.db.next(b.kind().path, b.ID)
	s.db.blocks = append(s.db.blocks, b)
	return b.ID
}

// ChangePrefix changes a prefix.
func (s *Server) ChangePrefix(id int64, change func(*Block)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.db.block(prefixes, id))
}

// RemovePrefix removes a prefix. Its addresses stay.
func (s *Server) RemovePrefix(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.db.blocks = slices.DeleteFunc(s.db.blocks, func(b Block) bool { return !b.isRange() && b.ID == id })
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
	if a := s.db.address(id); a != nil {
		change(a)
		a.updated = s.Now()
	}
}

// Addresses returns all addresses that NetBox holds, ascending.
func (s *Server) Addresses() []Address {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.db.addresses)
	slices.SortFunc(list, func(a, b Address) int {
		if c := a.ip().Compare(b.ip()); c != 0 {
			return c
		}
		return int(a.ID - b.ID)
	})
	return list
}
