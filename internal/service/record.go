package service

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionRecord is the condition whose message is the Record of a Service. Only holders of the
// right to write services/status can change it. An annotation can be changed by everybody who may
// edit the Service, so the annotations that say the same are for people, and for older versions.
const ConditionRecord = "purelb.io/Record"

// reasonGiven is the reason of ConditionRecord.
const reasonGiven = "Given"

// mostRecord is the size in bytes of the longest record. The API server accepts 32 KiB.
const mostRecord = 32 << 10

// Record is what PureLB gave to a Service. Its JSON is the message of ConditionRecord.
type Record struct {
	// Addresses are in the order of the status.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	Origin
	// Reevaluated says that the present annotation AnnotationReevaluate has had its effect, and
	// has none again.
	Reevaluated bool `json:"reevaluated,omitempty"`
}

// Origin says where the addresses of a Service are from, and what they were when they were given.
type Origin struct {
	// From names the groups of the addresses, separated by ", ".
	From string `json:"from,omitempty"`
	// PoolType is PoolLocal or PoolRemote.
	PoolType    string `json:"poolType,omitempty"`
	SkipIPv6DAD bool   `json:"skipIPv6DAD,omitempty"`
	// Restricted has those of From that name the neighbors that get their routes, or the nodes that
	// announce them.
	Restricted string `json:"restricted,omitempty"`
	// Objects are the objects of IPAM systems that hold addresses.
	Objects map[netip.Addr]string `json:"objects,omitempty"`
}

// RecordOf returns the record of svc, and whether svc has one. If svc has none, an older version of
// PureLB gave the addresses. In that case RecordOf returns what that version wrote elsewhere.
//
// A record is void if the other condition of PureLB names other addresses: then an allocator of an
// older version, which knows no records, wrote last.
func RecordOf(svc *corev1.Service) (r Record, recorded bool) {
	said := meta.FindStatusCondition(svc.Status.Conditions, ConditionAllocated)
	if c := meta.FindStatusCondition(svc.Status.Conditions, ConditionRecord); c != nil {
		if r, ok := parseRecord(c.Message); ok && (said == nil || agrees(said.Message, r.Addresses)) {
			return r, true
		}
	}
	return olderRecord(svc, said), false
}

// Emptied returns the addresses that PureLB gave to svc, if another program has emptied the status since. Agents
// go on announcing them, and no other Service gets them, because the allocator writes them again: when it takes
// addresses away, it removes the record in the same request. Cilium empties the statuses of all its Services when its pools go.
func Emptied(svc *corev1.Service) []netip.Addr {
	if len(svc.Status.LoadBalancer.Ingress) > 0 {
		return nil
	}
	r, recorded := RecordOf(svc)
	if !recorded {
		return nil
	}
	return r.Addresses
}

func parseRecord(text string) (Record, bool) {
	var r Record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Record{}, false
	}
	for _, a := range r.Addresses {
		if _, ok := usable(a.String()); !ok {
			return Record{}, false
		}
	}
	return r, len(r.Addresses) <= mostAddresses
}

// agrees reports whether message, of ConditionAllocated, names addresses or none. A message that was
// cut names the first ones.
func agrees(message string, addresses []netip.Addr) bool {
	is := named(message)
	if strings.HasSuffix(message, cut) && len(is) <= len(addresses) {
		addresses = addresses[:len(is)]
	}
	return len(is) == 0 || slices.Equal(is, addresses)
}

// olderRecord returns what an older version of PureLB wrote into the annotations of svc and into
// said, its condition. The versions before the condition wrote only the brand: then PureLB gave all
// addresses in the status.
func olderRecord(svc *corev1.Service, said *metav1.Condition) Record {
	r := Record{Origin: Origin{
		From:        svc.Annotations[AnnotationAllocatedFrom],
		PoolType:    svc.Annotations[AnnotationPoolType],
		SkipIPv6DAD: svc.Annotations[AnnotationSkipIPv6DAD] == "true",
		Objects:     objectsOf(svc.Annotations[AnnotationIPAMRecord]),
	}}
	if said != nil {
		r.Addresses = named(said.Message)
	}
	if !Branded(svc) {
		return r
	}
	for _, a := range ParseAddresses(svc.Annotations[AnnotationAllocatedAddresses]) {
		if !slices.Contains(r.Addresses, a) {
			r.Addresses = append(r.Addresses, a)
		}
	}
	if len(r.Addresses) == 0 && said == nil {
		r.Addresses = Ingress(svc)
	}
	return r
}

// set writes r into conditions, and reports whether that changes them. Without content it
// removes the condition. A record that is too long for the API server loses its objects first; an
// even longer one is not written, and RecordOf reads the annotations.
func (r Record) set(conditions *[]metav1.Condition, now metav1.Time) bool {
	text := r.text()
	if len(text) > mostRecord {
		r.Objects = nil
		text = r.text()
	}
	if text == "{}" || len(text) > mostRecord {
		return meta.RemoveStatusCondition(conditions, ConditionRecord)
	}
	return meta.SetStatusCondition(conditions, metav1.Condition{
		Type: ConditionRecord, Status: metav1.ConditionTrue, Reason: reasonGiven, Message: text, LastTransitionTime: now,
	})
}

func (r Record) text() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err) // cannot fail: addresses and strings
	}
	return string(text)
}

// objectsOf reads AnnotationIPAMRecord. It skips unreadable entries, because a user may have
// written them.
func objectsOf(text string) map[netip.Addr]string {
	var objects map[netip.Addr]string
	for entry := range strings.FieldsSeq(text) {
		name, object, _ := strings.Cut(entry, "=")
		if a, ok := usable(name); ok && object != "" {
			if objects == nil {
				objects = map[netip.Addr]string{}
			}
			objects[a] = object
		}
	}
	return objects
}

// objectsText returns AnnotationIPAMRecord for objects, in the order of the addresses.
func objectsText(objects map[netip.Addr]string) string {
	var entries []string
	for _, a := range slices.SortedFunc(maps.Keys(objects), netip.Addr.Compare) {
		entries = append(entries, a.String()+"="+objects[a])
	}
	return strings.Join(entries, " ")
}
