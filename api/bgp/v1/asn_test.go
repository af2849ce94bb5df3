package v1_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
	"purelb.io/purelb/internal/testing/apitest"
)

func TestNumbersAndWordsOfASesAreReadAsWritten(t *testing.T) {
	tests := []struct {
		text string
		want bgpv1.PeerConfig
		back string // if it differs from text
	}{
		{`{}`, bgpv1.PeerConfig{}, ""},
		{`{"peerAsn":64513}`, bgpv1.PeerConfig{PeerASN: 64513}, ""},
		{`{"peerAsn":4294967295}`, bgpv1.PeerConfig{PeerASN: 4294967295}, ""},
		{`{"peerAsn":-1}`, bgpv1.PeerConfig{PeerASN: -1}, ""},
		{`{"peerAsn":0}`, bgpv1.PeerConfig{}, `{}`},
		{`{"peerAsn":"external"}`, bgpv1.PeerConfig{PeerASN: bgpv1.AnyExternal}, ""},
		{`{"peerAsn":"internal"}`, bgpv1.PeerConfig{PeerASN: bgpv1.Internal}, ""},
		{`{"localAsn":0}`, bgpv1.PeerConfig{}, `{}`},
		{`{"localAsn":4294967295}`, bgpv1.PeerConfig{LocalASN: "4294967295"}, ""},
		{`{"localAsn":-1}`, bgpv1.PeerConfig{LocalASN: "-1"}, ""},
		{`{"localAsn":"${node.labels['asn']}"}`, bgpv1.PeerConfig{LocalASN: "${node.labels['asn']}"}, ""},
	}
	for _, tt := range tests {
		var got bgpv1.PeerConfig
		if err := json.Unmarshal([]byte(tt.text), &got); err != nil {
			t.Errorf("%s: %v", tt.text, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s is read as (-want +got):\n%s", tt.text, diff)
		}
		want := tt.back
		if want == "" {
			want = tt.text
		}
		if back, err := json.Marshal(got); err != nil || string(back) != want {
			t.Errorf("%s is written as %s, %v", tt.text, back, err)
		}
	}
	for _, text := range []string{`{"peerAsn": true}`, `{"peerAsn": {}}`, `{"peerAsn": 1.5}`, `{"localAsn": true}`, `{"localAsn": 1.5}`} {
		if json.Unmarshal([]byte(text), new(bgpv1.PeerConfig)) == nil {
			t.Errorf("%s is read without an error", text)
		}
	}
	var other bgpv1.PeerConfig
	if err := json.Unmarshal([]byte(`{"peerAsn":"any"}`), &other); err != nil || other.PeerASN >= 0 || other.PeerASN == bgpv1.AnyExternal || other.PeerASN == bgpv1.Internal {
		t.Errorf("another word is read as %v, %v", other.PeerASN, err)
	}
}

// TestTypedClientsReadWordsAndTemplates of objects that the API server has stored.
func TestTypedClientsReadWordsAndTemplates(t *testing.T) {
	ctx, c, namespace := context.Background(), typed(t), apitest.Namespace(t)
	want := bgpv1.BGPConfigurationSpec{Global: bgpv1.Global{ASN: 64512}}
	for _, asn := range []bgpv1.PeerASN{64513, bgpv1.AnyExternal, bgpv1.Internal} {
		n := bgpv1.Neighbor{Config: bgpv1.NeighborConfig{NeighborInterface: "eth1", PeerConfig: bgpv1.PeerConfig{PeerASN: asn}}}
		want.Neighbors = append(want.Neighbors, n)
	}
	want.Neighbors[0].Config.LocalASN, want.Neighbors[1].Config.LocalASN = "64600", "${node.annotations['example.com/asn']}"
	o := &bgpv1.BGPConfiguration{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}, Spec: want}
	if err := c.Create(ctx, o); err != nil {
		t.Fatal(err)
	}
	var got bgpv1.BGPConfiguration
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}
