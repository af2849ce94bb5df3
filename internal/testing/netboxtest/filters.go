package netboxtest

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// object is what a list holds: an address, a prefix or a range.
type object struct {
	id       int64
	first    netip.Prefix
	vrf      *named
	address  *Address
	block    *Block
	tags     []string
	tenant   string
	status   string
	role     string
	fields   map[string]any
	rendered map[string]any
}

// filter selects objects by the values of a parameter.
type filter struct {
	name string
	// check refuses values that NetBox does not know.
	check func(s *Server, value string) bool
	keep  func(o object, value string) bool
	// all says that an object must have each value. Otherwise one value is enough.
	all bool
}

func numeric(_ *Server, v string) bool { _, err := strconv.Atoi(v); return err == nil }

func known(kind string) func(*Server, string) bool {
	return func(s *Server, slug string) bool { return slug == "null" || s.db.find(kind, slug) != nil }
}

func fold(a, b string, compare func(string, string) bool) bool {
	return compare(strings.ToLower(a), strings.ToLower(b))
}

var filters = []filter{
	{name: "id", check: numeric, keep: func(o object, v string) bool { return fmt.Sprint(o.id) == v }},
	{name: "id__gt", check: numeric, keep: func(o object, v string) bool { n, _ := strconv.ParseInt(v, 10, 64); return o.id > n }},
	{name: "vrf_id", check: knownVRF, keep: func(o object, v string) bool {
		return o.vrf == nil && v == "null" || o.vrf != nil && fmt.Sprint(o.vrf.id) == v
	}},
	{name: "vrf", check: knownDistinguisher, keep: func(o object, v string) bool {
		return v == "null" && (o.vrf == nil || o.vrf.rd == "") || o.vrf != nil && o.vrf.rd == v
	}},
	{name: "tenant", check: known(tenants), keep: func(o object, v string) bool { return o.tenant == v || v == "null" && o.tenant == "" }},
	{name: "tag", check: known(tags), all: true, keep: func(o object, v string) bool { return slices.Contains(o.tags, v) }},
	{name: "tag__n", check: known(tags), keep: func(o object, v string) bool { return !slices.Contains(o.tags, v) }},
	{name: "status", keep: func(o object, v string) bool { return o.status == v }},
	{name: "family", keep: func(o object, v string) bool { return o.first.Addr().Is4() == (v == "4") }},
	{name: "description", keep: ofAddress(func(a Address, v string) bool { return a.Description == v })},
	{name: "description__isw", keep: ofAddress(func(a Address, v string) bool { return fold(a.Description, v, strings.HasPrefix) })},
	{name: "description__ic", keep: ofAddress(func(a Address, v string) bool { return fold(a.Description, v, strings.Contains) })},
	{name: "dns_name", keep: ofAddress(func(a Address, v string) bool { return a.DNSName == v })},
	{name: "dns_name__ic", keep: ofAddress(func(a Address, v string) bool { return fold(a.DNSName, v, strings.Contains) })},
	{name: "prefix", keep: ofBlock(func(b Block, v string) bool { return !b.isRange() && b.Prefix.String() == v })},
	{name: "start_address", keep: ofBlock(func(b Block, v string) bool { return b.isRange() && matchesAddress(b.Prefix, v) })},
	{name: "is_pool", keep: ofBlock(func(b Block, v string) bool { return fmt.Sprint(b.IsPool) == v })},
	{name: "mark_utilized", keep: ofBlock(func(b Block, v string) bool { return fmt.Sprint(b.Utilized) == v })},
	{name: "mark_populated", keep: ofBlock(func(b Block, v string) bool { return fmt.Sprint(b.Populated) == v })},
	{name: "site", check: known(sites), keep: ofBlock(func(b Block, v string) bool { return b.Site == v })},
	{name: "address", keep: func(o object, v string) bool { return matchesAddress(o.first, v) }},
	{name: "parent", keep: func(o object, v string) bool {
		p, err := netip.ParsePrefix(v)
		return err == nil && p.Contains(o.first.Addr())
	}},
	{name: "within_include", keep: func(o object, v string) bool {
		p, err := netip.ParsePrefix(v)
		return err == nil && p.Contains(o.first.Addr()) && p.Bits() <= o.first.Bits()
	}},
	{name: "contains", keep: func(o object, v string) bool {
		p, err := netip.ParsePrefix(v)
		if o.block.isRange() {
			return err == nil && p.Bits() == o.first.Bits() && o.block.contains(p.Addr())
		}
		a, addrErr := netip.ParseAddr(v)
		return addrErr == nil && o.first.Contains(a)
	}},
}

func ofAddress(keep func(Address, string) bool) func(object, string) bool {
	return func(o object, v string) bool { return o.address != nil && keep(*o.address, v) }
}

func ofBlock(keep func(Block, string) bool) func(object, string) bool {
	return func(o object, v string) bool { return o.block != nil && keep(*o.block, v) }
}

// matchesAddress compares the mask only if there is one.
func matchesAddress(p netip.Prefix, v string) bool {
	if strings.Contains(v, "/") {
		return p.String() == v
	}
	a, err := netip.ParseAddr(v)
	return err == nil && p.Addr() == a
}

func knownVRF(s *Server, v string) bool {
	return v == "null" || slices.ContainsFunc(s.db.named, func(n named) bool { return n.kind == vrfs && fmt.Sprint(n.id) == v })
}

func knownDistinguisher(s *Server, v string) bool {
	return v == "null" || slices.ContainsFunc(s.db.named, func(n named) bool { return n.kind == vrfs && n.rd == v })
}

// roleFilter filters addresses by a choice, and blocks by an object.
func (s *Server) roleFilter(addresses bool) filter {
	f := filter{name: "role", keep: func(o object, v string) bool { return o.role == v }}
	f.check = known(roles)
	if addresses {
		f.check = func(_ *Server, v string) bool { return slices.Contains(addressRoles, v) }
	}
	return f
}

// fieldFilter filters by a custom field. It is nil if there is no such field, because NetBox then
// ignores the parameter.
func (s *Server) fieldFilter(parameter, objectType string) *filter {
	name, isField := strings.CutPrefix(parameter, "cf_")
	if !isField {
		return nil
	}
	name, lookup := cutLookup(name)
	field := s.db.field(name)
	if field == nil || field.FilterLogic == "disabled" || !slices.Contains(field.ObjectTypes, objectType) {
		return nil
	}
	if lookup == "" && field.FilterLogic == "loose" {
		lookup = "ic"
	}
	return &filter{name: parameter, keep: func(o object, v string) bool {
		value, _ := o.fields[name].(string)
		return compareField(lookup, value, strings.TrimSpace(v))
	}}
}

func cutLookup(name string) (string, string) {
	if i := strings.LastIndex(name, "__"); i > 0 {
		return name[:i], name[i+2:]
	}
	return name, ""
}

func compareField(lookup, value, wanted string) bool {
	switch lookup {
	case "isw":
		return fold(value, wanted, strings.HasPrefix)
	case "ic":
		return fold(value, wanted, strings.Contains)
	case "ie":
		return strings.EqualFold(value, wanted)
	case "n":
		return value != wanted
	case "empty":
		return (value == "") == (wanted == "true")
	default:
		return value == wanted && value != ""
	}
}

// selectObjects applies the parameters that NetBox knows.
func (s *Server) selectObjects(objects []object, query url.Values, objectType string) ([]object, error) {
	for name, values := range query {
		f := s.filterNamed(name, objectType)
		if f == nil {
			continue
		}
		for _, v := range values {
			if f.check != nil && !f.check(s, v) {
				return nil, &failure{status: http.StatusBadRequest, body: map[string]any{
					name: []string{fmt.Sprintf("Select a valid choice. %s is not one of the available choices.", v)}}}
			}
		}
		objects = slices.DeleteFunc(objects, func(o object) bool {
			keep := func(v string) bool { return f.keep(o, v) }
			if f.all {
				return slices.ContainsFunc(values, func(v string) bool { return !keep(v) })
			}
			return !slices.ContainsFunc(values, keep)
		})
	}
	return objects, nil
}

func (s *Server) filterNamed(name, objectType string) *filter {
	if name == "role" {
		f := s.roleFilter(objectType == "ipam.ipaddress")
		return &f
	}
	if i := slices.IndexFunc(filters, func(f filter) bool { return f.name == name }); i >= 0 {
		return &filters[i]
	}
	return s.fieldFilter(name, objectType)
}
