package ipamv1

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"purelb.io/purelb/internal/testing/expect"
)

// Servers in other languages and of other versions know only field numbers and wire types. So the
// test compares each message with the bytes that follow from these. A tag is the field number times
// 8, plus 0 for a number or 2 for a value with a length.
var golden = []struct {
	name    string
	message proto.Message
	bytes   string
}{
	{
		name: "AllocateRequest for families",
		message: &AllocateRequest{
			Pool: "default", Service: "shop/web", SharingKey: "dns",
			Selector: &AllocateRequest_Families{Families: &FamilyRequest{WantIpv4: true, WantIpv6: true}},
		},
		bytes: "\x0a\x07default" + "\x12\x08shop/web" + "\x1a\x03dns" + "\x2a\x04" + "\x08\x01" + "\x10\x01",
	},
	{
		name:    "AllocateRequest for IPv4 only",
		message: &AllocateRequest{Pool: "p", Selector: &AllocateRequest_Families{Families: &FamilyRequest{WantIpv4: true}}},
		bytes:   "\x0a\x01p" + "\x2a\x02" + "\x08\x01",
	},
	{
		name: "AllocateRequest for addresses",
		message: &AllocateRequest{
			Pool: "p", Service: "a/b",
			Selector: &AllocateRequest_Explicit{Explicit: &ExplicitIPs{Ips: []string{"192.0.2.1", "2001:db8::1"}}},
		},
		bytes: "\x0a\x01p" + "\x12\x03a/b" + "\x22\x18" + "\x0a\x09192.0.2.1" + "\x0a\x0b2001:db8::1",
	},
	{
		name:    "AllocateResponse",
		message: &AllocateResponse{Ips: []*AllocatedIP{{Ip: "192.0.2.1"}, {Ip: "::1"}}},
		bytes:   "\x0a\x0b" + "\x0a\x09192.0.2.1" + "\x0a\x05" + "\x0a\x03::1",
	},
	{
		name:    "ReleaseRequest of one address",
		message: &ReleaseRequest{Pool: "p", Service: "a/b", Target: &ReleaseRequest_Ip{Ip: "192.0.2.1"}},
		bytes:   "\x0a\x01p" + "\x12\x03a/b" + "\x1a\x09192.0.2.1",
	},
	{
		name:    "ReleaseRequest of everything",
		message: &ReleaseRequest{Pool: "p", Service: "a/b", Target: &ReleaseRequest_All{All: true}},
		bytes:   "\x0a\x01p" + "\x12\x03a/b" + "\x20\x01",
	},
	{name: "ReleaseResponse", message: &ReleaseResponse{}, bytes: ""},
	{name: "StatsRequest", message: &StatsRequest{Pool: "p"}, bytes: "\x0a\x01p"},
	{
		name: "StatsResponse",
		message: &StatsResponse{
			InUseV4: 1, InUseV6: 2, SizeV4: 300, SizeV6: 1<<64 - 1, HasKnownCapacity: true,
			DisplayAddresses: []string{"192.0.2.0/24", "b"},
		},
		bytes: "\x08\x01" + "\x10\x02" + "\x18\xac\x02" + "\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + "\x28\x01" +
			"\x32\x0c192.0.2.0/24" + "\x32\x01b",
	},
}

func TestMessagesHaveTheGoldenBytes(t *testing.T) {
	for _, tt := range golden {
		t.Run(tt.name, func(t *testing.T) {
			got, err := proto.MarshalOptions{Deterministic: true}.Marshal(tt.message)
			expect.NoError(t, err)
			if string(got) != tt.bytes {
				t.Errorf("the message encodes as\n%q, want\n%q", got, tt.bytes)
			}
			read := tt.message.ProtoReflect().New().Interface()
			expect.NoError(t, proto.Unmarshal([]byte(tt.bytes), read))
			if !proto.Equal(read, tt.message) {
				t.Errorf("the message decodes as\n%v, want\n%v", read, tt.message)
			}
		})
	}
}

func TestEachMessageHasGoldenBytes(t *testing.T) {
	inside := map[string]bool{"ExplicitIPs": true, "FamilyRequest": true, "AllocatedIP": true} // parts of other messages
	for _, tt := range golden {
		inside[string(tt.message.ProtoReflect().Descriptor().Name())] = true
	}
	messages := File_api_ipam_v1_ipam_proto.Messages()
	for i := range messages.Len() {
		if name := string(messages.Get(i).Name()); !inside[name] {
			t.Errorf("%s has no golden bytes", name)
		}
	}
}

func TestUnknownFieldsAreIgnored(t *testing.T) {
	var r AllocateResponse
	expect.NoError(t, proto.Unmarshal([]byte("\x0a\x0b"+"\x0a\x09192.0.2.1"+"\x7a\x05later"), &r))
	if len(r.Ips) != 1 || r.Ips[0].Ip != "192.0.2.1" {
		t.Errorf("the message is read as %v", &r)
	}
}

// Requests and metrics contain the names of the methods.
func TestMethodNamesAreStable(t *testing.T) {
	want := []string{"/purelb.ipam.v1.IPAM/Allocate", "/purelb.ipam.v1.IPAM/Release", "/purelb.ipam.v1.IPAM/Stats"}
	service := IPAM_ServiceDesc
	if len(service.Methods) != len(want) || len(service.Streams) != 0 {
		t.Fatalf("the service has %d methods and %d streams, want %v: GetInfo stays reserved", len(service.Methods), len(service.Streams), want)
	}
	for i, m := range service.Methods {
		if got := "/" + service.ServiceName + "/" + m.MethodName; got != want[i] {
			t.Errorf("method %d is %s, want %s", i+1, got, want[i])
		}
	}
}
