package peering

import (
	"fmt"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// defaultConfiguration is the name of the BGPConfiguration that is in effect.
const defaultConfiguration = "default"

// ReasonNotInEffect is that of a BGPConfiguration that nodes do not go by.
const ReasonNotInEffect = "NotInEffect"

// InEffect returns the BGPConfiguration that nodes go by: the one called default,
// or the only one that there is. One that is being deleted is as good as gone.
func InEffect(configs []bgpv1.BGPConfiguration) *bgpv1.BGPConfiguration {
	var alive []*bgpv1.BGPConfiguration
	for i := range configs {
		c := &configs[i]
		if !c.DeletionTimestamp.IsZero() {
			continue
		}
		if c.Name == defaultConfiguration {
			return c
		}
		alive = append(alive, c)
	}
	if len(alive) == 1 {
		return alive[0]
	}
	return nil
}

// CommonStatus is what c is to say: what is true of it on every node. Chosen is the
// one in effect, nil for none.
//
// No node is needed for that: what depends on a node is Here, and no part of it.
func CommonStatus(c, chosen *bgpv1.BGPConfiguration, secrets Secrets, now time.Time) bgpv1.BGPConfigurationStatus {
	if chosen == nil || c.UID != chosen.UID {
		return notInEffect(c, chosen, now)
	}
	nowhere := func(netip.Addr) (Egress, bool) { return Egress{}, false }
	return ConfigurationStatus(c.Generation, Decide(c.Spec, Node{}, secrets, nowhere), c.Status, now)
}

// notInEffect is the status of a BGPConfiguration that nodes do not go by.
func notInEffect(c, chosen *bgpv1.BGPConfiguration, now time.Time) bgpv1.BGPConfigurationStatus {
	text := "nodes go by the BGPConfiguration called " + defaultConfiguration + ": there are several, and none is called so"
	if chosen != nil {
		text = "nodes go by the BGPConfiguration " + chosen.Name
	}
	stamp := metav1.NewTime(now.Truncate(time.Second))
	ready := condition(bgpv1.ConditionReady, false, ReasonNotInEffect, text)
	ready.ObservedGeneration = c.Generation
	out := bgpv1.BGPConfigurationStatus{
		ObservedGeneration: c.Generation, NeighborCount: int32(len(c.Spec.Neighbors)), Message: text,
		Conditions:        conditions(c.Status.Conditions, stamp, ready),
		LastReconcileTime: c.Status.LastReconcileTime,
	}
	if out.LastReconcileTime == nil || !sameConfiguration(out, c.Status) {
		out.LastReconcileTime = &stamp
	}
	return out
}

// Secret is what is known of a Secret.
type Secret struct {
	Data map[string][]byte
	// Known says that it, or its absence, was seen.
	Known, Exists bool
	// Forbidden says that the API server refuses to show it.
	Forbidden bool
}

// Value returns what s, the Secret of that name, has under key. The error says what
// is wrong, and how to mend it.
func (s Secret) Value(namespace, name, key string) (string, error) {
	value, found := s.Data[key]
	switch {
	case found:
		return string(value), nil
	case s.Forbidden:
		return "", fmt.Errorf("there is no right to read the secret %s/%s: add %s to gobgp.passwordSecrets in the values of the chart", namespace, name, name)
	case !s.Known:
		return "", fmt.Errorf("secret %s/%s cannot be read yet", namespace, name)
	case !s.Exists:
		return "", fmt.Errorf("secret %s/%s does not exist", namespace, name)
	}
	return "", fmt.Errorf("secret %s/%s has no key %q", namespace, name, key)
}
