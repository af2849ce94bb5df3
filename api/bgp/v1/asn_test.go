package v1_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	bgpv1 "purelb.io/purelb/api/bgp/v1"
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
