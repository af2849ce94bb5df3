package netbox

import (
	"fmt"
	"slices"
	"strings"

	"purelb.io/purelb/internal/config"
)

// Mode is where a group's addresses come from.
type Mode string

const (
	// ModePrefix creates addresses in prefixes and IP ranges, and deletes them.
	ModePrefix Mode = "prefix"
	// ModeReserved takes existing addresses with the status "reserved", and gives them
	// back by setting that status.
	ModeReserved Mode = "reserved"
)

const (
	// DefaultField is the custom field for the keys of claims.
	DefaultField = "purelb_claim"
	// DefaultTenant is the tenant whose reserved addresses are used, as in earlier
	// versions.
	DefaultTenant = "ipam-purelb"
)

// Group says which addresses of a server a pool has.
type Group struct {
	// Name is the name of the ServiceGroup.
	Name string
	Identity
	Mode Mode
	// Parents are the places in which addresses are created, in this order. Only for
	// ModePrefix.
	Parents []Parent
	// Tenant is the slug of the tenant. With ModeReserved it selects the addresses to
	// take (default: DefaultTenant). With ModePrefix it is set on created addresses.
	Tenant string
	// Field is the name of the custom field for keys. Default: DefaultField.
	Field string
	// Status is set on created addresses. Default: "active".
	Status string
	// Role and Tags (slugs) are set on created addresses.
	Role string
	Tags []string
}

// Identity is how a cluster is known in NetBox.
type Identity struct {
	// Cluster is the part of the keys before the first slash.
	Cluster string
	// UID is the UID of the namespace kube-system. Two clusters may have the same name by mistake, so
	// descriptions have the UID.
	UID string
	// Replaces is the UID of a former cluster, whose addresses are now this one's, or "".
	Replaces string
}

// GroupOf returns the group called name, from n, with the keys of a cluster.
func GroupOf(name string, of Identity, n config.NetBox) Group {
	g := Group{
		Name: name, Identity: of, Mode: ModePrefix,
		Tenant: n.Tenant, Field: n.Field, Status: n.Status, Role: n.Role, Tags: slices.Clone(n.Tags),
	}
	if n.Reserved {
		g.Mode = ModeReserved
	}
	for _, p := range n.Parents {
		parent := Parent{Kind: Prefix, ID: p.ID, Prefix: p.Prefix, Start: p.Start, VRF: p.VRF}
		if p.Range {
			parent.Kind = Range
		}
		g.Parents = append(g.Parents, parent)
	}
	return g
}

func (g Group) withDefaults() Group {
	if g.Field == "" {
		g.Field = DefaultField
	}
	if g.Status == "" {
		g.Status = "active"
	}
	if g.Tenant == "" && g.Mode == ModeReserved {
		g.Tenant = DefaultTenant
	}
	return g
}

// problem returns what makes g unusable, or "".
func (g Group) problem() string {
	if g.Cluster == "" || strings.ContainsAny(g.Cluster, "/ \t\n") {
		return fmt.Sprintf("the name of the cluster, %q, is empty or has a slash or a blank", g.Cluster)
	}
	if strings.ContainsFunc(g.Field, notInFieldName) || strings.Contains(g.Field, "__") {
		return fmt.Sprintf("%q is not the name of a custom field: use letters, digits and single underscores", g.Field)
	}
	switch g.Mode {
	case ModeReserved:
		if len(g.Parents) > 0 {
			return "reserved addresses are found by their tenant: remove the prefixes and ranges"
		}
		return ""
	case ModePrefix:
		if len(g.Parents) == 0 {
			return "it names no prefix and no IP range"
		}
	default:
		return fmt.Sprintf("the mode %q is not known", g.Mode)
	}
	for _, parent := range g.Parents {
		if problem := parent.problem(); problem != "" {
			return fmt.Sprintf("the %s: %s", parent, problem)
		}
	}
	return ""
}

func notInFieldName(r rune) bool {
	return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// exempt reports whether NetBox allows an address twice for a role.
func exempt(role string) bool {
	return slices.Contains([]string{"vip", "anycast", "vrrp", "hsrp", "glbp", "carp"}, role)
}
