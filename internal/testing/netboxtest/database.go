package netboxtest

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// kind is a kind of objects other than addresses.
type kind struct {
	// path is the path of the objects, and class their name in messages.
	path, class string
	// right is the permission to view the objects.
	right string
	// filter is the parameter by which the driver looks for a block.
	filter string
}

var (
	vrfs     = kind{"ipam/vrfs", "VRF", "ipam.view_vrf", ""}
	tenants  = kind{"tenancy/tenants", "Tenant", "tenancy.view_tenant", ""}
	tags     = kind{"extras/tags", "Tag", "extras.view_tag", ""}
	prefixes = kind{"ipam/prefixes", "Prefix", "ipam.view_prefix", "prefix"}
	ranges   = kind{"ipam/ip-ranges", "IPRange", "ipam.view_iprange", "start_address"}
)

// named is an object that other objects refer to: a VRF, tenant or tag.
type named struct {
	kind kind
	id   int64
	name string
	slug string // the name, for a VRF
	rd   string // of a VRF
	// loose is a VRF in which addresses may be equal.
	loose bool
}

// CustomField is a custom field of text.
type CustomField struct {
	ID          int64
	Name        string
	Type        string // default: text
	Unique      bool
	FilterLogic string // default: exact
	ObjectTypes []string
}

func (f CustomField) ofAddresses() bool { return slices.Contains(f.ObjectTypes, "ipam.ipaddress") }

// Block is a prefix, or an IP range when it has an End.
type Block struct {
	ID int64
	// Prefix is the prefix itself, or the first address of a range with its mask.
	Prefix netip.Prefix
	End    netip.Addr
	// VRF is a name, "" for the global table.
	VRF string
	// IsPool and Populated are marks.
	IsPool, Populated bool
}

func (b Block) isRange() bool { return b.End.IsValid() }

func (b Block) kind() kind {
	if b.isRange() {
		return ranges
	}
	return prefixes
}

// Address is an IP address.
type Address struct {
	ID     int64
	Prefix netip.Prefix
	// VRF is a name, "" for the global table. Tenant and Tags are slugs.
	VRF, Tenant string
	Tags        []string
	Status      string
	Role        string
	DNSName     string
	Description string
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

// next returns an id for a kind of objects. No id is used twice.
func (db *database) next(kind string, wanted int64) int64 {
	if wanted == 0 {
		wanted = db.last[kind] + 1
	}
	db.last[kind] = max(db.last[kind], wanted)
	return wanted
}

func first[T any](list []T, is func(T) bool) *T {
	i := slices.IndexFunc(list, is)
	if i < 0 {
		return nil
	}
	return &list[i]
}

func (db *database) find(k kind, slug string) *named {
	return first(db.named, func(n named) bool { return n.kind == k && n.slug == slug })
}

func (db *database) numbered(k kind, id string) *named {
	return first(db.named, func(n named) bool { return n.kind == k && fmt.Sprint(n.id) == id })
}

func (db *database) field(name string) *CustomField {
	return first(db.fields, func(f CustomField) bool { return f.Name == name })
}

func (db *database) block(k kind, id int64) *Block {
	return first(db.blocks, func(b Block) bool { return b.kind() == k && b.ID == id })
}

func (db *database) address(id int64) *Address {
	return first(db.addresses, func(a Address) bool { return a.ID == id })
}

func (db *database) addField(f CustomField) *CustomField {
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
	return &f
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
