package netbox

import (
	"slices"

	"purelb.io/purelb/internal/config"
)

// Group says which addresses of a server a ServiceGroup has.
type Group struct {
	// Name is the name of the ServiceGroup.
	Name string
	Identity
	config.NetBox
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

// exempt reports whether NetBox allows an address twice for a role.
func exempt(role string) bool {
	return slices.Contains([]string{"vip", "anycast", "vrrp", "hsrp", "glbp", "carp"}, role)
}
