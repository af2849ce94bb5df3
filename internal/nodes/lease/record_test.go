package lease

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"purelb.io/purelb/internal/testing/expect"
)

// written returns the Lease that publishes r.
func written(r Record) *coordinationv1.Lease {
	o := &coordinationv1.Lease{}
	New(Options{Node: "node-a", Duration: 10 * time.Second}).write(o, r, 10*time.Second, at(0))
	return o
}

// parsed returns what an agent reads of o.
func parsed(o *coordinationv1.Lease) *seen {
	return newTable(Options{Duration: time.Minute}).parse(o)
}

// many returns n addresses.
func TestGatewaysAreReadAsWritten(t *testing.T) {
	gateways := []netip.Addr{netip.MustParseAddr("192.0.2.254"), netip.MustParseAddr("2001:db8::fe")}
	if got := Gateways(written(Record{Gateways: gateways})); !slices.Equal(got, gateways) {
		t.Errorf("the gateways are read as %v", got)
	}
	without := written(Record{})
	if _, ok := without.Annotations[AnnotationGateways]; ok {
		t.Errorf("a node without gateways has the annotations %v", without.Annotations)
	}
	if got := Gateways(without); len(got) != 0 {
		t.Errorf("an agent of an earlier version has gateways %v", got)
	}
	bad := &coordinationv1.Lease{}
	bad.Annotations = map[string]string{AnnotationGateways: "nonsense, 192.0.2.1,,::ffff:192.0.2.2,fe80::1%eth0"}
	expect.Equal(t, "a bad annotation", fmt.Sprint(Gateways(bad)), "[192.0.2.1 192.0.2.2 fe80::1]")
}

func TestClaimsAreReadAsWritten(t *testing.T) {
	macs := []MAC{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}}
	ofNode := claim("192.0.2.10", 2)
	ofNode.Node = "node-b"
	claims := []Claim{claim("192.0.2.9", 7), claim("2001:db8::9", 8), ofNode}
	o := written(Record{MACs: macs, Claims: claims})
	if got, said := MACs(o); !said || !slices.Equal(got, macs) {
		t.Errorf("the MACs are read as %v, %t", got, said)
	}
	if got := Claims(o); !slices.Equal(got, claims) {
		t.Errorf("the claims are read as %v from %q", got, o.Annotations[AnnotationClaims])
	}
	quiet := written(Record{})
	if _, ok := quiet.Annotations[AnnotationClaims]; ok {
		t.Errorf("an agent without claims writes the annotations %v", quiet.Annotations)
	}
	if got, said := MACs(quiet); !said || len(got) != 0 {
		t.Errorf("a node without Ethernet has MACs %v, %t", got, said)
	}
	if got, said := MACs(&coordinationv1.Lease{}); said || len(got) != 0 {
		t.Errorf("an agent of an earlier version has MACs %v, %t", got, said)
	}
	bad := &coordinationv1.Lease{}
	bad.Annotations = map[string]string{AnnotationClaims: "192.0.2.1,=02:00:00:00:00:01,192.0.2.2=here, 192.0.2.3=02:00:00:00:00:03,192.0.2.4=02:00:5e:10:00:00:00:01"}
	expect.Equal(t, "a bad annotation", fmt.Sprint(Claims(bad)), "[192.0.2.3=02:00:00:00:00:03]")
}

// The API server accepts annotations of up to 256 KiB for an object.
func TestLeasesStaySmall(t *testing.T) {
	r := Record{}
	for i := range 1000 {
		a := netip.MustParseAddr(fmt.Sprintf("2001:db8:ffff:ffff:ffff:ffff:ffff:%x", 0x1000+i))
		r.Gateways, r.MACs = append(r.Gateways, a), append(r.MACs, MAC{2, 0, 0, 0, 0, byte(i)})
		r.Claims = append(r.Claims, Claim{Addr: a, MAC: MAC{2, 0, 0, 0, 0, 7}})
	}
	o, size := written(r), 0
	for name, value := range o.Annotations {
		size += len(name) + len(value)
	}
	if n := len(Claims(o)); n != MaxClaims || !slices.Equal(Gateways(o), r.Gateways[:maxGateways]) || size > 10_000 {
		t.Errorf("%d claims and %d gateways take annotations of %d bytes, which is too large", n, len(Gateways(o)), size)
	}
	o.Annotations[AnnotationClaims], o.Annotations[AnnotationMACs], o.Annotations[AnnotationGateways] = join(r.Claims), join(r.MACs), join(r.Gateways)
	if macs, _ := MACs(o); len(Claims(o)) != MaxClaims || len(macs) != maxMACs || len(Gateways(o)) != maxGateways {
		t.Errorf("%d claims, %d MACs and %d gateways are read", len(Claims(o)), len(macs), len(Gateways(o)))
	}
}

func TestAddressesThatANodeCannotHaveAreReadAsWritten(t *testing.T) {
	r := Record{Unable: []netip.Addr{netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("2001:db8::9")}}
	got := parsed(written(r))
	if !slices.Equal(got.Unable, r.Unable) || got.digest != r.Digest() {
		t.Errorf("they are read as %v, with the digest %x for %x", got.Unable, got.digest, r.Digest())
	}
	if none := (Record{}); none.Digest() == r.Digest() {
		t.Error("other agents do not read the addresses")
	}
}

func TestWeightsAreReadAsWritten(t *testing.T) {
	r := Record{Weights: map[string]int{"public": 10, "web/other": 1}}
	o := written(r)
	got := parsed(o)
	if o.Annotations[AnnotationWeights] != "public=10,web/other=1" || !maps.Equal(got.Weights, r.Weights) || got.digest != r.Digest() {
		t.Errorf("%q is read as %v, with the digest %x for %x", o.Annotations[AnnotationWeights], got.Weights, got.digest, r.Digest())
	}
	if none := (Record{}); none.Digest() == r.Digest() || none.Equal(r) {
		t.Error("other agents do not read the weights")
	}
	if _, ok := written(Record{}).Annotations[AnnotationWeights]; ok {
		t.Error("a node without weights has the annotation")
	}
	bad := &coordinationv1.Lease{}
	bad.Annotations = map[string]string{AnnotationWeights: "public, other=x,=3,third=0,fourth=-1, fifth=5"}
	expect.Equal(t, "a bad annotation", fmt.Sprint(Weights(bad)), "map[fifth:5]")
}
