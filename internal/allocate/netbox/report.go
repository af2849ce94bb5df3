package netbox

import (
	"context"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/ipam"
)

// Grants returns everything that NetBox holds for the cluster, for all groups that use the same
// custom field. A partial or wrong list is an error, because the sweep releases addresses by this
// list.
func (p *Pool) Grants(ctx context.Context) ([]ipam.Grant, error) {
	prefix := ipam.KeyPrefix(p.group.Cluster)
	what := call{name: "sweep", path: "ipam/ip-addresses/", query: fields(addressFields), what: "list the claims of the cluster " + p.group.Cluster}
	what.query.Set(p.key.filter()+"__isw", prefix)
	found, err := list[address](ctx, p.client, what)
	if err != nil {
		return nil, err
	}
	var grants []ipam.Grant
	for _, a := range found {
		key, known := p.key.of(a)
		switch {
		case !known, !hasPrefixFold(key, prefix):
			return nil, p.filterIgnored(what)
		case strings.HasPrefix(key, prefix) && a.ip().IsValid() && p.another(a) == "":
			grants = append(grants, p.grant(key, a))
		}
	}
	return grants, nil
}

// hasPrefixFold compares as NetBox does.
func hasPrefixFold(text, prefix string) bool {
	return strings.HasPrefix(strings.ToLower(text), strings.ToLower(prefix))
}

// Capacity counts the addresses of the group. It counts addresses of other users of NetBox as in
// use.
func (p *Pool) Capacity(ctx context.Context) (ipam.Capacity, error) {
	c := ipam.Capacity{
		Backend: "NetBox " + p.facts.Version,
		Known:   true,
		InUse:   map[addr.Family]uint64{},
		Size:    map[addr.Family]uint64{},
		Ranges:  slices.Clone(p.facts.Parents),
	}
	if p.group.Reserved {
		return c, p.countReserved(ctx, &c)
	}
	for _, in := range p.parents {
		used, err := p.used(ctx, in)
		if err != nil {
			return ipam.Capacity{}, err
		}
		size := in.size()
		c.Size[in.family()] = add(c.Size[in.family()], size)
		c.InUse[in.family()] = add(c.InUse[in.family()], min(used, size))
	}
	return c, nil
}

// size returns how many addresses NetBox can give from p, limited to the largest
// number.
func (p parent) size() uint64 {
	if p.populated {
		return 0
	}
	size := p.usable().Size()
	if largest := new(big.Int).SetUint64(^uint64(0)); size.Cmp(largest) > 0 {
		return ^uint64(0)
	}
	return size.Uint64()
}

// add adds two numbers, limited to the largest number.
func add(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}

// used counts the addresses in a parent. NetBox cannot count the addresses of a range,
// so used lists them.
func (p *Pool) used(ctx context.Context, in parent) (uint64, error) {
	query := url.Values{"parent": {in.cover()}, "vrf_id": {"null"}, "fields": {"id,address"}}
	if in.vrf != nil {
		query.Set("vrf_id", strconv.FormatInt(in.vrf.ID, 10))
	}
	what := call{name: "capacity", method: http.MethodGet, path: "ipam/ip-addresses/", query: query, what: fmt.Sprintf("count the addresses of the %s", in)}
	if in.kind == kindPrefix {
		query.Set("limit", "1")
		var found page[address]
		r, err := p.client.do(ctx, what, &found)
		if err != nil {
			return 0, err
		}
		if found.Count == nil || *found.Count < 0 {
			return 0, p.client.strange(what, r, "the list has no count")
		}
		return uint64(*found.Count), nil
	}
	found, err := list[address](ctx, p.client, what)
	distinct := map[string]bool{}
	for _, a := range found {
		if in.span.Contains(a.ip()) {
			distinct[a.ip().String()] = true
		}
	}
	return uint64(len(distinct)), err
}

// cover returns the smallest prefix of at least two addresses that contains all of p. It is not
// known whether NetBox finds an address in a prefix of one address.
func (p parent) cover() string {
	for bits := p.family().Bits() - 1; ; bits-- {
		prefix, err := p.span.From.Prefix(bits)
		if err != nil || prefix.Contains(p.span.To) {
			return prefix.String()
		}
	}
}

// countReserved counts the tenant's addresses that are free or claimed. Other addresses
// of the tenant are not in the group.
func (p *Pool) countReserved(ctx context.Context, c *ipam.Capacity) error {
	found, err := p.reserved(ctx, url.Values{"status": {"reserved", "active"}})
	if err != nil {
		return err
	}
	c.Ranges = []string{"reserved addresses of the tenant " + p.group.Tenant}
	for _, a := range found {
		key, _ := p.key.of(a)
		f := addr.FamilyOf(a.ip())
		switch {
		case p.isFree(a):
			c.Size[f]++
		case key != "":
			c.Size[f]++
			c.InUse[f]++
		}
	}
	return nil
}
