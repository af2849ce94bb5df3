package service

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Rules are what the installation decides about the reading of Services.
type Rules struct {
	// ByDefault says that Services without a class are ours.
	ByDefault bool
	// Others are the products whose annotations count where PureLB's are absent, see Products.
	Others []string
}

// names are the annotations of a product that ask for what PureLB's annotation of the key asks for.
// The first one that is present counts.
type names map[string][]string

// products are the load balancers whose users write these annotations. The names are those of
// MetalLB 0.15, kube-vip 1.0 and Cilium 1.18, and the older names that they still read.
var products = map[string]names{
	"metallb": {
		AnnotationAddresses: {"metallb.io/loadBalancerIPs", "metallb.universe.tf/loadBalancerIPs"},
		AnnotationGroup:     {"metallb.io/address-pool", "metallb.universe.tf/address-pool"},
		AnnotationSharing:   {"metallb.io/allow-shared-ip", "metallb.universe.tf/allow-shared-ip"},
	},
	"kube-vip": {
		AnnotationAddresses: {"kube-vip.io/loadbalancerIPs"},
	},
	"cilium": {
		AnnotationAddresses: {"lbipam.cilium.io/ips", "io.cilium/lb-ipam-ips"},
		AnnotationSharing:   {"lbipam.cilium.io/sharing-key", "io.cilium/lb-ipam-sharing-key"},
	},
}

// Products returns the products whose annotations PureLB can read, sorted.
func Products() []string { return slices.Sorted(maps.Keys(products)) }

// ParseProducts reads products that are separated by commas.
func ParseProducts(list string) ([]string, error) {
	var all []string
	for name := range strings.SplitSeq(list, ",") {
		switch name = strings.TrimSpace(name); {
		case name == "":
		case products[name] == nil:
			return nil, fmt.Errorf("%q is no product whose annotations PureLB can read; use %s", name, strings.Join(Products(), ", "))
		default:
			all = append(all, name)
		}
	}
	return all, nil
}

// asks returns the value of one of PureLB's annotations, or of the one of another product that asks
// for the same, and the name of that annotation.
func (ru Rules) asks(svc *corev1.Service, ours string) (value, name string) {
	if value := annotation(svc, ours); value != "" {
		return value, ours
	}
	for _, product := range ru.Others {
		for _, name := range products[product][ours] {
			if value := annotation(svc, name); value != "" {
				return value, name
			}
		}
	}
	return "", ours
}

// Translate returns the annotations of PureLB that ask for what svc asks a product for, without those that
// it has.
func Translate(svc *corev1.Service, product string) map[string]string {
	ru, found := Rules{Others: []string{product}}, map[string]string{}
	for ours := range products[product] {
		if value, name := ru.asks(svc, ours); value != "" && name != ours {
			found[ours] = value
		}
	}
	return found
}

// unread returns what is wrong with the annotations of svc that mean nothing to PureLB although
// their author seems to expect something: those of other products, and misspelled ones.
func (ru Rules) unread(svc *corev1.Service) []string {
	var all []string
	for product, of := range products {
		if slices.Contains(ru.Others, product) {
			continue
		}
		for ours, theirs := range of {
			for _, name := range theirs {
				if value, _ := ru.asks(svc, ours); annotation(svc, name) != "" && value == "" {
					all = append(all, fmt.Sprintf("the annotation %s is not read; use %s, or have PureLB read it (readAnnotations: [%s])", name, ours, product))
				}
			}
		}
	}
	for name := range svc.Annotations {
		if !strings.HasPrefix(name, prefix) || slices.Contains(known, name) {
			continue
		}
		if meant := nearest(name); meant != "" {
			all = append(all, fmt.Sprintf("the annotation %s means nothing to PureLB; did you mean %s?", name, meant))
		} else {
			all = append(all, fmt.Sprintf("the annotation %s means nothing to PureLB; remove it", name))
		}
	}
	slices.Sort(all)
	return all
}

// prefix begins the names of PureLB's annotations.
const prefix = "purelb.io/"

// known are PureLB's annotations of Services. Other packages read some of them.
var known = []string{
	AnnotationGroup, AnnotationPool, AnnotationAddresses, AnnotationSharing, AnnotationMultiPool, AnnotationReevaluate,
	AnnotationAdopt, AnnotationLeave, AnnotationAllowLocal, AnnotationNode, "purelb.io/node-affinity",
	"purelb.io/bgp-communities", "purelb.io/bgp-large-communities", "purelb.io/bgp-med", "purelb.io/bgp-local-preference",
	AnnotationAllocatedBy, AnnotationAllocatedAddresses, AnnotationAllocatedFrom, AnnotationPoolType, AnnotationSkipIPv6DAD,
	AnnotationIPAMRecord, AnnotationAnnouncingIPv4, AnnotationAnnouncingIPv6, AnnotationAnnouncingUnknown,
}

// nearest returns the known annotation whose name is most like name, or "" if none is like it.
func nearest(name string) string {
	const most = 3
	best, meant := most+1, ""
	for _, k := range known {
		if d := distance(strings.TrimPrefix(name, prefix), strings.TrimPrefix(k, prefix)); d < best {
			best, meant = d, k
		}
	}
	if 2*best > len(name)-len(prefix) {
		return ""
	}
	return meant
}

// distance is the number of letters to insert, delete or replace to turn a into b (Levenshtein).
// Letters of both cases are the same letter.
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// sharingKey returns the sharing key that any of the annotations for one gives svc, whether it
// counts or not.
func sharingKey(svc *corev1.Service) string {
	all := Rules{Others: Products()}
	key, _ := all.asks(svc, AnnotationSharing)
	return cmp.Or(svc.Annotations[AnnotationSharing], key)
}
