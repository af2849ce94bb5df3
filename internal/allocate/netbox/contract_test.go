package netbox_test

import (
	"net/http"
	"net/netip"
	"testing"
	"time"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/allocate/netbox"
	"purelb.io/purelb/internal/config"
	"purelb.io/purelb/internal/testing/ipamtest"
	"purelb.io/purelb/internal/testing/netboxtest"
)

// patience is the timeout of requests in tests with a real clock. A busy machine may need it.
const patience = 5 * time.Minute

// mode says where the addresses of a group come from.
type mode string

const inPrefixes, inReserved mode = "prefix", "reserved"

// memoryNetBox is a NetBox in memory with a pool of 14 IPv4 and 6 IPv6 addresses.
type memoryNetBox struct {
	*netboxtest.Server
	t     testing.TB
	group netbox.Group
	// only is the client of all drivers if NetBox cannot tell two clients apart.
	only *netbox.Client
}

// newMemoryNetBox returns a memoryNetBox for groups of the given mode.
func newMemoryNetBox(t testing.TB, version string, mode mode) *memoryNetBox {
	b := &memoryNetBox{Server: netboxtest.New(version), t: t}
	b.AddVRF("lb-vrf", "64512:99")
	b.AddTenant("IPAM PureLB", "ipam-purelb")
	b.AddTag("LB managed", "lb-managed")
	b.AddField(netboxtest.CustomField{Name: config.NetBoxField, Unique: true})
	b.group = netbox.Group{Name: "default", Identity: netbox.Identity{Cluster: "ipamtest"}, NetBox: config.NetBox{
		Reserved: mode == inReserved, Field: config.NetBoxField, Status: "active",
	}}
	if mode == inReserved {
		b.group.Tenant = config.NetBoxTenant
		b.reserve()
		if version == netboxtest.V44 {
			b.only = b.client()
		}
	} else {
		b.AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix("192.0.2.0/28"), VRF: "lb-vrf"})
		b.AddBlock(netboxtest.Block{Prefix: netip.MustParsePrefix("2001:db8::10/64"), End: netip.MustParseAddr("2001:db8::15"), VRF: "lb-vrf"})
		b.group.Tenant, b.group.Tags = "ipam-purelb", []string{"lb-managed"}
		b.group.Parents = []config.NetBoxParent{
			{Prefix: netip.MustParsePrefix("192.0.2.0/28"), VRF: "lb-vrf"},
			{Range: true, Start: netip.MustParseAddr("2001:db8::10")},
		}
	}
	t.Cleanup(func() {
		for _, complaint := range b.Complaints() {
			t.Errorf("NetBox refuses this as unknown: %s", complaint)
		}
	})
	return b
}

// reserve adds the addresses that a tenant has reserved, between addresses of others.
func (b *memoryNetBox) reserve() {
	for _, f := range []addr.Family{addr.V4, addr.V6} {
		for _, a := range b.Addresses(f) {
			b.AddAddress(netboxtest.Address{Prefix: netip.PrefixFrom(a, a.BitLen()), Tenant: "ipam-purelb", Status: "reserved"})
		}
	}
	b.AddAddress(netboxtest.Address{Prefix: netip.MustParsePrefix("198.51.100.1/32"), Status: "reserved"})
	b.AddAddress(netboxtest.Address{Prefix: netip.MustParsePrefix("198.51.100.2/32"), Tenant: "ipam-purelb"})
}

func (b *memoryNetBox) LoseAnswer() {
	changes := 0
	b.SetFault(netboxtest.LoseReply, func(r *http.Request) bool {
		if r.Method != http.MethodGet {
			changes++
		}
		return r.Method != http.MethodGet && changes == 1
	})
}

func (b *memoryNetBox) Addresses(f addr.Family) []netip.Addr {
	first, n := netip.MustParseAddr("192.0.2.1"), 14
	if f == addr.V6 {
		first, n = netip.MustParseAddr("2001:db8::10"), 6
	}
	var list []netip.Addr
	for a := first; len(list) < n; a = a.Next() {
		list = append(list, a)
	}
	return list
}

func (b *memoryNetBox) client() *netbox.Client {
	b.t.Helper()
	if b.only != nil {
		return b.only
	}
	return b.clientOf(b.t, b.Server)
}

func (b *memoryNetBox) Driver(cluster string) ipamtest.Driver { return b.pool(cluster) }

// pool returns the pool of an allocator that has just started.
func (b *memoryNetBox) pool(cluster string) *netbox.Pool {
	b.t.Helper()
	g := b.group
	g.Cluster = cluster
	p, err := b.client().Prepare(b.t.Context(), g)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func TestNetBoxKeepsTheContract(t *testing.T) {
	for _, version := range []string{netboxtest.V44, netboxtest.V46} {
		for _, mode := range []mode{inPrefixes, inReserved} {
			t.Run(version+"/"+string(mode), func(t *testing.T) {
				ipamtest.Contract(t, func(t *testing.T) ipamtest.Backend { return newMemoryNetBox(t, version, mode) })
			})
		}
	}
}
