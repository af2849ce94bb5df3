package config

import (
	"fmt"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/groups"
)

// form is one notation of a group, with its contents.
type form struct {
	name, field string
	announce    groups.Announce
	pools       v2.Pools
	single      v2.Single
	skipIPv6DAD bool
	nodes       []v2.NodeWeight
	// rebalanceAfter is empty if addresses stay where they are.
	rebalanceAfter v2.Duration
	withdrawal     v2.Withdrawal
	// netbox and external are set if a backend manages the addresses. There are no
	// pools then.
	netbox   *v2.NetboxSpec
	external *v2.ExternalSpec
}

// formsOf returns every form that spec uses. There should be one.
func formsOf(spec v2.ServiceGroupSpec) []form {
	var forms []form
	if l := spec.Local; l != nil {
		forms = append(forms, form{
			name: "local", field: "spec.local", announce: announceOf(l.Announce),
			pools: l.Pools, single: l.Single, skipIPv6DAD: l.SkipIPv6DAD, nodes: l.Nodes, rebalanceAfter: l.RebalanceAfter, withdrawal: l.Withdrawal,
		})
	}
	if r := spec.Remote; r != nil {
		forms = append(forms, form{
			name: "remote", field: "spec.remote", announce: groups.AnnounceRemote, pools: r.Pools, withdrawal: r.Withdrawal,
		})
	}
	if spec.Netbox != nil {
		forms = append(forms, form{name: "netbox", field: "spec.netbox", netbox: spec.Netbox, withdrawal: spec.Netbox.Withdrawal})
	}
	if spec.External != nil {
		forms = append(forms, form{name: "external", field: "spec.external", external: spec.External, withdrawal: spec.External.Withdrawal})
	}
	if spec.Single != (v2.Single{}) {
		forms = append(forms, form{name: "the flat form", field: "spec", announce: groups.AnnounceAuto, single: spec.Single})
	}
	return forms
}

func announceOf(a v2.Announce) groups.Announce {
	if a == v2.AnnounceAuto {
		return groups.AnnounceAuto
	}
	return groups.AnnounceLocal
}

// source is a pool as the user wrote it, and where.
type source struct {
	field string
	text  v2.AddressPool
	// family is the family that the field is for, or 0 if it is for both. instead
	// is the field for the other family.
	family  addr.Family
	instead string
}

// sources returns the pools of a form, in the order in which they are tried.
func (f form) sources() []source {
	var all []source
	add := func(field string, family addr.Family, instead string, p ...v2.AddressPool) {
		for _, text := range p {
			all = append(all, source{f.field + field, text, family, instead})
		}
	}
	list := func(field string, family addr.Family, instead string, p []v2.AddressPool) {
		for i, text := range p {
			add(fmt.Sprintf("%s[%d]", field, i), family, instead, text)
		}
	}
	list(".v4pools", addr.V4, "v6pools", f.pools.V4Pools)
	if p := f.pools.V4Pool; p != nil {
		add(".v4pool", addr.V4, "v6pool", *p)
	}
	list(".v6pools", addr.V6, "v4pools", f.pools.V6Pools)
	if p := f.pools.V6Pool; p != nil {
		add(".v6pool", addr.V6, "v4pool", *p)
	}
	if f.single != (v2.Single{}) {
		add("", 0, "", v2.AddressPool{Pool: f.single.Pool, Subnet: f.single.Subnet, Aggregation: f.single.Aggregation})
	}
	return all
}
