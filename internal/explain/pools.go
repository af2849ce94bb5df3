package explain

import (
	"cmp"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
)

// Pools are the ranges of addresses, and how full they are.
type Pools struct {
	ServiceGroups []PoolGroup `json:"serviceGroups"`
	// The totals are sums over all ranges of known size.
	TotalIPv4 *big.Int `json:"totalIPv4"`
	UsedIPv4  *int64   `json:"usedIPv4"`
	TotalIPv6 *big.Int `json:"totalIPv6"`
	UsedIPv6  *int64   `json:"usedIPv6"`
	Unread    []Unread `json:"unknown,omitempty"`
}

// PoolGroup is the ranges of a ServiceGroup.
type PoolGroup struct {
	Name   string      `json:"name"`
	Type   string      `json:"type"`
	Ranges []PoolRange `json:"ranges"`
}

// PoolRange is one range.
type PoolRange struct {
	group  string `col:"SERVICEGROUP"`
	from   string `col:"TYPE"`
	Pool   string `json:"pool" col:"POOL RANGE"`
	Subnet string `json:"subnet" col:"SUBNET"`
	Family string `json:"family" col:"FAMILY"`
	// An unknown number is nil. Size is unknown if only the backend of the group knows it. The
	// other numbers are unknown if the Services could not be read.
	Size        *big.Int `json:"size" col:"SIZE"`
	Used        *int64   `json:"used" col:"USED"`
	Available   *big.Int `json:"available" col:"AVAIL"`
	UtilPercent *float64 `json:"utilPercent" col:"UTIL%"`
	Services    []string `json:"services"`
	// Warning says how the range could be read otherwise.
	Warning string `json:"warning,omitempty"`
}

// PoolsOf returns how full the ranges of the groups that f selects are. It counts the addresses that
// Services have.
func PoolsOf(w World, f Filter) (Pools, error) {
	if err := w.needs("which ServiceGroups there are", KindGroups); err != nil {
		return Pools{}, err
	}
	return newView(w).pools(f)
}

func (v *view) pools(f Filter) (Pools, error) {
	p := Pools{Unread: v.unread(KindGroups, KindServices, KindLeases)}
	total := map[addr.Family]*big.Int{addr.V4: new(big.Int), addr.V6: new(big.Int)}
	used := map[addr.Family]int64{}
	for _, g := range v.state.Config.Groups.Usable {
		if f.Pool != "" && g.DisplayName() != f.Pool && g.Ref() != f.Pool || f.Namespace != "" && g.Namespace != f.Namespace {
			continue
		}
		one := PoolGroup{Name: g.DisplayName(), Type: v.typeOf(g)}
		for _, pool := range g.Pools {
			one.Ranges = append(one.Ranges, v.rangeOf(pool))
			total[pool.Family()].Add(total[pool.Family()], pool.Size())
			used[pool.Family()] += v.held.Store.InUse(pool)
		}
		if g.Backend != "" {
			one.Ranges = append(one.Ranges, v.backendRanges(g)...)
		}
		p.ServiceGroups = append(p.ServiceGroups, one)
	}
	if f.Pool != "" && len(p.ServiceGroups) == 0 {
		return p, fmt.Errorf("no usable ServiceGroup is called %q; there are %s", f.Pool, v.groupNames())
	}
	p.TotalIPv4, p.TotalIPv6 = total[addr.V4], total[addr.V6]
	if v.counted() {
		p.UsedIPv4, p.UsedIPv6 = new(used[addr.V4]), new(used[addr.V6])
	}
	return p, nil
}

// counted reports whether the number of addresses in use is known. If files have no Services, the
// cluster is assumed to have none.
func (v *view) counted() bool { return v.knows(KindServices) || v.absent(KindServices) }

func (v *view) groupNames() string {
	var names []string
	for _, g := range v.state.Config.Groups.Usable {
		names = append(names, g.DisplayName())
	}
	return cmp.Or(list(names), "none")
}

// typeOf returns the type of the addresses of g.
func (v *view) typeOf(g groups.Group) string {
	switch o := v.groupObject(g); {
	case g.Backend != "" && o != nil && o.Spec.Netbox != nil:
		return "netbox"
	case g.Backend != "":
		return "external"
	}
	return strings.ToLower(string(g.Announce))
}

// groupObject returns the object of g, or nil.
func (v *view) groupObject(g groups.Group) *v2.ServiceGroup {
	return find(v.Groups, func(o v2.ServiceGroup) bool { return o.Namespace == g.Namespace && o.Name == g.Name })
}

func (v *view) rangeOf(p groups.Pool) PoolRange {
	r := PoolRange{Pool: p.Text, Subnet: p.Subnet.String(), Family: p.Family().String(), Size: p.Size(), Services: v.holding(p.Range.Contains), Warning: p.Misread()}
	if v.counted() {
		free, used := v.held.Store.Available(p), v.held.Store.InUse(p)
		r.Used, r.Available, r.UtilPercent = &used, free, new(percent(used, free))
	}
	return r
}

// holding returns the Services that hold one of the addresses in, the oldest first.
func (v *view) holding(in func(netip.Addr) bool) []string {
	var keys []string
	for _, r := range v.plan.Requests {
		if slices.ContainsFunc(v.has[r.Key()], in) {
			keys = append(keys, r.Key())
		}
	}
	return keys
}

// percent returns the share of the available addresses that is used, with one digit after the
// point.
func percent(used int64, free *big.Int) float64 {
	all, _ := new(big.Float).SetInt(new(big.Int).Add(free, big.NewInt(used))).Float64()
	if all == 0 {
		return 0
	}
	return float64(int(float64(used)/all*1000+0.5)) / 10
}

// backendRanges returns the ranges that the status of a group names for a backend.
func (v *view) backendRanges(g groups.Group) []PoolRange {
	o := v.groupObject(g)
	if o == nil {
		return nil
	}
	pool := cmp.Or(strings.Join(o.Status.Addresses, ", "), g.Backend)
	var all []PoolRange
	add := func(f addr.Family, used int64, free *int64) {
		if used == 0 && free == nil {
			return
		}
		r := PoolRange{Pool: pool, Subnet: "-", Family: f.String(), Used: &used}
		if free != nil {
			r.Size, r.Available, r.UtilPercent = big.NewInt(used+*free), big.NewInt(*free), new(percent(used, big.NewInt(*free)))
		}
		all = append(all, r)
	}
	add(addr.V4, o.Status.AllocatedIPv4, o.Status.AvailableIPv4)
	add(addr.V6, o.Status.AllocatedIPv6, o.Status.AvailableIPv6)
	return all
}

// Tables returns the tables of p.
func (p Pools) Tables() []Table { return p.tables(false) }

// Wide returns the tables of p with the Services of each range.
func (p Pools) Wide() []Table { return p.tables(true) }

func (p Pools) tables(services bool) []Table {
	t := TableOf[PoolRange]("", nil)
	for _, g := range p.ServiceGroups {
		for _, r := range g.Ranges {
			r.group, r.from = g.Name, g.Type
			t.Rows = append(t.Rows, TableOf("", []PoolRange{r}).Rows...)
			if services {
				for _, s := range r.Services {
					t.Rows = append(t.Rows, []string{"  " + s})
				}
			}
			if r.Warning != "" {
				t.Lines = append(t.Lines, g.Name+": "+r.Warning)
			}
		}
	}
	return append([]Table{t}, unreadTable(p.Unread)...)
}

// Names returns the names of the ServiceGroups.
func (p Pools) Names() []string {
	var names []string
	for _, g := range p.ServiceGroups {
		names = append(names, "servicegroup.purelb.io/"+g.Name)
	}
	return names
}
