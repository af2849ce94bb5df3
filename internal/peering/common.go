package peering

import (
	"fmt"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
)

// DefaultConfiguration is the name of the BGPConfiguration in effect.
const DefaultConfiguration = "default"

// ReasonNotInEffect is the reason of a BGPConfiguration that nodes do not use.
const ReasonNotInEffect = "NotInEffect"

// InEffect returns the BGPConfiguration that nodes use: the one called default, or the only
// one. A configuration that is being deleted does not count.
func InEffect(configs []bgpv1.BGPConfiguration) *bgpv1.BGPConfiguration {
	var alive []*bgpv1.BGPConfiguration
	for i := range configs {
		c := &configs[i]
		if !c.DeletionTimestamp.IsZero() {
			continue
		}
		if c.Name == DefaultConfiguration {
			return c
		}
		alive = append(alive, c)
	}
	if len(alive) == 1 {
		return alive[0]
	}
	return nil
}

// CommonStatus returns the status of c: what is true of it on every node. chosen is the
// configuration in effect, or nil.
//
// It needs no node. Problems that depend on a node are Here, and are left out.
func CommonStatus(c, chosen *bgpv1.BGPConfiguration, secrets Secrets, now time.Time) bgpv1.BGPConfigurationStatus {
	if chosen == nil || c.UID != chosen.UID {
		return notInEffect(c, chosen, now)
	}
	nowhere := func(netip.Addr) (Egress, bool) { return Egress{}, false }
	return ConfigurationStatus(c.Generation, Decide(c.Spec, Node{}, secrets, nowhere), c.Status, now)
}

// notInEffect returns the status of a BGPConfiguration that nodes do not use.
func notInEffect(c, chosen *bgpv1.BGPConfiguration, now time.Time) bgpv1.BGPConfigurationStatus {
	text := "nodes go by the BGPConfiguration called " + DefaultConfiguration + ": there are several, and none is called so"
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

// Secret is the known state of a Secret.
type Secret struct {
	Data map[string][]byte
	// Known says that the Secret, or its absence, was seen.
	Known, Exists bool
	// Forbidden says that the API server refuses to show it.
	Forbidden bool
}

// Value returns the value of key in s, the Secret of that name. The error says what is wrong,
// and how to fix it.
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
