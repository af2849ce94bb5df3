package netboxtest

import (
	"net/netip"
	"slices"
	"time"
)

// named is an object that other objects refer to: a VRF, tenant, tag, role or site.
type named struct {
	kind   string // its path: "ipam/vrfs"
	id     int64
	name   string
	slug   string
	rd     string // of a VRF
	unique bool   // of a VRF
	color  string // of a tag
}

// CustomField is a custom field of text.
type CustomField struct {
	ID          int64
	Name        string
	Type        string // default: text
	Unique      bool
	FilterLogic string // default: exact
	ObjectTypes []string
	label, text string
}

// Block is a prefix, or an IP range when it has an End.
type Block struct {
	ID int64
	// Prefix is the prefix itself, or the first address of a range with its mask.
	Prefix netip.Prefix
	End    netip.Addr
	// VRF is a name, "" for the global table. Tenant, Role, Site and Tags are slugs.
	VRF, Tenant, Role, Site string
	Tags                    []string
	IsPool                  bool
	// Populated and Utilized are marks.
	Populated, Utilized bool
	// Status is the status of the block. Default: active.
	Status      string
	Description string
	Fields      map[string]any
}

func (b Block) isRange() bool { return b.End.IsValid() }

func (b Block) contains(a netip.Addr) bool {
	if b.isRange() {
		return !a.Less(b.Prefix.Addr()) && !b.End.Less(a)
	}
	return b.Prefix.Contains(a)
}

// Address is an IP address.
type Address struct {
	ID          int64
	Prefix      netip.Prefix
	VRF, Tenant string
	Tags        []string
	Status      string
	Role        string
	DNSName     string
	Description string
	Comments    string
	Fields      map[string]any

	created, updated time.Time
}

func (a Address) ip() netip.Addr { return a.Prefix.Addr() }

// Key is the value of a custom field, "" for none.
func (a Address) Key(field string) string {
	key, _ := a.Fields[field].(string)
	return key
}

// database is what NetBox holds.
type database struct {
	named     []named
	fields    []CustomField
	blocks    []Block
	addresses []Address
	last      map[string]int64 // ids
}

func newDatabase() database { return database{last: map[string]int64{}} }

// next returns an id for a kind of objects. No id is used twice.
func (db *database) next(kind string, wanted int64) int64 {
	if wanted == 0 {
		wanted = db.last[kind] + 1
	}
	db.last[kind] = max(db.last[kind], wanted)
	return wanted
}

func (db *database) find(kind, slug string) *named {
	i := slices.IndexFunc(db.named, func(n named) bool {
		return n.kind == kind && (n.slug == slug && slug != "" || kind == vrfs && n.name == slug && slug != "")
	})
	if i < 0 {
		return nil
	}
	return &db.named[i]
}

func (db *database) field(name string) *CustomField {
	i := slices.IndexFunc(db.fields, func(f CustomField) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &db.fields[i]
}

// fieldsOf returns the custom fields of a type of objects, with their values if they are set.
func (db *database) fieldsOf(objectType string, set map[string]any) map[string]any {
	all := map[string]any{}
	for _, f := range db.fields {
		if slices.Contains(f.ObjectTypes, objectType) {
			all[f.Name] = set[f.Name]
		}
	}
	return all
}

func (db *database) block(ranges bool, id int64) *Block {
	i := slices.IndexFunc(db.blocks, func(b Block) bool { return b.isRange() == ranges && b.ID == id })
	if i < 0 {
		return nil
	}
	return &db.blocks[i]
}

const (
	vrfs    = "ipam/vrfs"
	tenants = "tenancy/tenants"
	tags    = "extras/tags"
	roles   = "ipam/roles"
	sites   = "dcim/sites"
)

func (db *database) addField(f CustomField) int64 {
	f.ID = db.next("fields", f.ID)
	if f.Type == "" {
		f.Type = "text"
	}
	if f.FilterLogic == "" {
		f.FilterLogic = "exact"
	}
	if len(f.ObjectTypes) == 0 {
		f.ObjectTypes = []string{"ipam.ipaddress"}
	}
	db.fields = append(db.fields, f)
	return f.ID
}

func (db *database) removeBlock(ranges bool, id int64) {
	db.blocks = slices.DeleteFunc(db.blocks, func(b Block) bool { return b.isRange() == ranges && b.ID == id })
}

func (db *database) addAddress(a Address, now time.Time) int64 {
	if a.Status == "" {
		a.Status = "active"
	}
	if a.Fields == nil {
		a.Fields = map[string]any{}
	}
	a.ID = db.next("addresses", a.ID)
	a.created, a.updated = now, now
	db.addresses = append(db.addresses, a)
	return a.ID
}

func (db *database) removeAddress(id int64) {
	db.addresses = slices.DeleteFunc(db.addresses, func(a Address) bool { return a.ID == id })
}

// byNumber is NetBox's order of addresses.
func byNumber(a, b Address) int {
	if c := a.ip().Compare(b.ip()); c != 0 {
		return c
	}
	return int(a.ID - b.ID)
}
