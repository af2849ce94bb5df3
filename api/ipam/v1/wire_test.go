package ipamv1

import (
	"fmt"
	"testing"

	"purelb.io/purelb/internal/testing/expect"
)

// Servers in other languages and of other versions know the names of methods, and the numbers and types of fields.
// A field may be added, and nothing here may change.
const wire = `AllocateRequest pool 1 optional string
AllocateRequest service 2 optional string
AllocateRequest sharing_key 3 optional string
AllocateRequest explicit 4 optional ExplicitIPs
AllocateRequest families 5 optional FamilyRequest
ExplicitIPs ips 1 repeated string
FamilyRequest want_ipv4 1 optional bool
FamilyRequest want_ipv6 2 optional bool
AllocateResponse ips 1 repeated AllocatedIP
AllocatedIP ip 1 optional string
ReleaseRequest pool 1 optional string
ReleaseRequest service 2 optional string
ReleaseRequest ip 3 optional string
ReleaseRequest all 4 optional bool
StatsRequest pool 1 optional string
StatsResponse in_use_v4 1 optional uint64
StatsResponse in_use_v6 2 optional uint64
StatsResponse size_v4 3 optional uint64
StatsResponse size_v6 4 optional uint64
StatsResponse has_known_capacity 5 optional bool
StatsResponse display_addresses 6 repeated string
purelb.ipam.v1.IPAM.Allocate AllocateRequest AllocateResponse
purelb.ipam.v1.IPAM.Release ReleaseRequest ReleaseResponse
purelb.ipam.v1.IPAM.Stats StatsRequest StatsResponse
`

func TestMethodsAndFieldsStayAsOthersKnowThem(t *testing.T) {
	got := ""
	messages := File_api_ipam_v1_ipam_proto.Messages()
	for i := range messages.Len() {
		fields := messages.Get(i).Fields()
		for j := range fields.Len() {
			f := fields.Get(j)
			kind := f.Kind().String()
			if m := f.Message(); m != nil {
				kind = string(m.Name())
			}
			got += fmt.Sprintln(messages.Get(i).Name(), f.Name(), f.Number(), f.Cardinality(), kind)
		}
	}
	methods := File_api_ipam_v1_ipam_proto.Services().Get(0).Methods()
	for i := range methods.Len() {
		m := methods.Get(i)
		got += fmt.Sprintln(m.FullName(), m.Input().Name(), m.Output().Name())
	}
	expect.Equal(t, "the wire", got, wire)
}
