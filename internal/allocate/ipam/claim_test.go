package ipam

import (
	"errors"
	"io"
	"strings"
	"testing"

	"purelb.io/purelb/internal/addr"
)

// webOf returns the claim of default/web on a group.
func webOf(group, sharingKey string, f addr.Family) Claim {
	return Claim{Group: group, Service: "default/web", SharingKey: sharingKey, Family: f}
}

func TestClaimKeyNamesHolderAndGroup(t *testing.T) {
	tests := []struct {
		name  string
		claim Claim
		want  string
	}{
		{"one Service", webOf("box", "", addr.V4), "prod/default/web/box/v4"},
		{"the other family", webOf("box", "", addr.V6), "prod/default/web/box/v6"},
		{"another group", webOf("crate", "", addr.V4), "prod/default/web/crate/v4"},
		{"a group of another namespace", webOf("team/box", "", addr.V4), "prod/default/web/team%2Fbox/v4"},
		{"sharers", webOf("box", "dns", addr.V4), "prod/default/shared:dns/box/v4"},
		{"a sharing key of users", webOf("box", "a/b c%\té", addr.V4), "prod/default/shared:a%2Fb%20c%25%09%C3%A9/box/v4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := KeyOf("prod", tt.claim)
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if !strings.HasPrefix(got, KeyPrefix("prod")) {
				t.Errorf("%s does not begin with the prefix of its cluster", got)
			}
		})
	}
}

func TestClaimsOfDifferentSharersDiffer(t *testing.T) {
	if KeyOf("c", webOf("box", "a%2Fb", addr.V4)) == KeyOf("c", webOf("box", "a/b", addr.V4)) {
		t.Error("two sharing keys have the same claim key")
	}
}

func TestErrorShowsItsCause(t *testing.T) {
	err := error(&Error{Kind: KindUnknown, Message: "NetBox did not answer", Cause: io.ErrUnexpectedEOF})
	if !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != "NetBox did not answer" {
		t.Errorf("%v", err)
	}
}

func TestHolderIsReadFromTheClaimKey(t *testing.T) {
	for _, tt := range []struct{ key, want string }{
		{KeyOf("prod", webOf("box", "", addr.V4)), "default/web"},
		{KeyOf("prod", webOf("box", "", addr.V6)), "default/web"},
		{KeyOf("prod", webOf("box", "a/b", addr.V4)), "default/shared:a%2Fb"},
		{"prod:pool/default/web/v4", "default/web"},
		{"", ""},
		{"default/web", ""},
		{"prod/default//v4", ""},
		{"prod/default//box/v4", ""},
		{"prod/default/web/box/v4/more", ""},
	} {
		if got := HolderOf(tt.key); got != tt.want {
			t.Errorf("%q is of %q, want %q", tt.key, got, tt.want)
		}
	}
}
