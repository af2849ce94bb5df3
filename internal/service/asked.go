package service

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"purelb.io/purelb/internal/addr"
)

// asked returns the addresses that svc asks for. byField says that svc does so by
// spec.loadBalancerIP.
func (ru Rules) asked(svc *corev1.Service) (addresses []netip.Addr, byField bool, err error) {
	if text, name := ru.asks(svc, AnnotationAddresses); text != "" {
		addresses, err = parseAsked(text)
		if err != nil {
			return nil, false, fmt.Errorf("annotation %s: %w; write one address, or one of each family separated by a comma", name, err)
		}
		return addresses, false, nil
	}
	text := svc.Spec.LoadBalancerIP // deprecated, and still in use; kube-vip's users write two families
	if text == "" {
		return nil, false, nil
	}
	if addresses, err = parseAsked(text); err != nil {
		return nil, false, fmt.Errorf("spec.loadBalancerIP: %w; write one address, or one of each family separated by a comma, or better the annotation %s instead",
			err, AnnotationAddresses)
	}
	return addresses, true, nil
}

// parseAsked reads addresses. It allows at most one of each family.
func parseAsked(list string) ([]netip.Addr, error) {
	var addresses []netip.Addr
	for text := range strings.SplitSeq(list, ",") {
		a, err := parseAddress(text)
		if err != nil {
			return nil, err
		}
		for _, b := range addresses {
			if f := addr.FamilyOf(a); f == addr.FamilyOf(b) {
				return nil, fmt.Errorf("%s and %s are both %s", b, a, f)
			}
		}
		addresses = append(addresses, a)
	}
	return addresses, nil
}

func parseAddress(text string) (netip.Addr, error) {
	text = strings.TrimSpace(text)
	a, err := netip.ParseAddr(text)
	switch {
	case text == "":
		return a, fmt.Errorf("an address is missing")
	case err != nil:
		return a, fmt.Errorf("%s is not an IP address", addr.Quote(text))
	case a.Zone() != "":
		return a, fmt.Errorf("%s has a zone, and service addresses have none", addr.Quote(text))
	case a.IsUnspecified():
		return a, fmt.Errorf("%s asks for an address of a DHCP server, and PureLB has no DHCP", addr.Quote(text))
	}
	return a.Unmap(), nil
}

// External returns the addresses in spec.externalIPs of svc. kube-proxy takes their traffic, on nodes
// to which other routers send it.
func External(svc *corev1.Service) []netip.Addr {
	var addresses []netip.Addr
	for _, text := range svc.Spec.ExternalIPs {
		if a, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, a.Unmap())
		}
	}
	return addresses
}
