package peering

import (
	"fmt"
	"strings"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// foreignSecrets puts the namespace and a slash before the names of the Secrets in spec. A name
// without a slash is that of a Secret in the install namespace.
func foreignSecrets(spec *bgpv1.BGPConfigurationSpec, namespace string) {
	name := func(r *bgpv1.SecretKeyRef) {
		if r != nil && r.Name != "" {
			r.Name = namespace + "/" + r.Name
		}
	}
	for i := range spec.Neighbors {
		name(spec.Neighbors[i].Config.AuthPasswordSecretRef)
	}
	for i := range spec.PeerGroups {
		name(spec.PeerGroups[i].Config.AuthPasswordSecretRef)
	}
}

// ForeignSecret returns an error if name, from a Merged, is that of a Secret outside of home.
func ForeignSecret(name, home string) error {
	if !strings.Contains(name, "/") {
		return nil
	}
	return fmt.Errorf("secret %s is not read, only those of %s are: move the BGPConfiguration and its Secret there", name, home)
}
