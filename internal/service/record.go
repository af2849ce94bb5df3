package service

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// recordsOf reads AnnotationIPAMRecord of svc. It skips unreadable entries, because a user may have
// written them.
func recordsOf(svc *corev1.Service) map[netip.Addr]string {
	var records map[netip.Addr]string
	for entry := range strings.FieldsSeq(svc.Annotations[AnnotationIPAMRecord]) {
		text, object, _ := strings.Cut(entry, "=")
		if a, ok := usable(text); ok && object != "" {
			if records == nil {
				records = map[netip.Addr]string{}
			}
			records[a] = object
		}
	}
	return records
}

// recordText returns AnnotationIPAMRecord for records, in the order of the
// addresses.
func recordText(records map[netip.Addr]string) string {
	var entries []string
	for _, a := range slices.SortedFunc(maps.Keys(records), netip.Addr.Compare) {
		entries = append(entries, a.String()+"="+records[a])
	}
	return strings.Join(entries, " ")
}
