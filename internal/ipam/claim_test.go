package ipam

import (
	"errors"
	"io"
	"strings"
	"testing"

	"purelb.io/purelb/internal/addr"
)

func TestKeysNameTheServiceOrTheSharers(t *testing.T) {
	tests := []struct {
		name, sharingKey, want string
		family                 addr.Family
	}{
		{"one Service", "", "prod/default/web/v4", addr.V4},
		{"the other family", "", "prod/default/web/v6", addr.V6},
		{"sharers", "dns", "prod/default/shared:dns/v4", addr.V4},
		{"a sharing key of users", "a/b c%\té", "prod/default/shared:a%2Fb%20c%25%09%C3%A9/v4", addr.V4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := KeyOf("prod", "default", "web", tt.sharingKey, tt.family)
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
	if KeyOf("c", "ns", "", "a%2Fb", addr.V4) == KeyOf("c", "ns", "", "a/b", addr.V4) {
		t.Error("two sharing keys have one claim")
	}
}

func TestAnErrorShowsItsCause(t *testing.T) {
	err := error(&Error{Kind: KindUnknown, Message: "NetBox did not answer", Cause: io.ErrUnexpectedEOF})
	if !errors.Is(err, io.ErrUnexpectedEOF) || err.Error() != "NetBox did not answer" {
		t.Errorf("%v", err)
	}
}

func TestAKeySaysWhoseItIs(t *testing.T) {
	for _, tt := range []struct{ key, want string }{
		{KeyOf("prod", "default", "web", "", addr.V4), "default/web"},
		{KeyOf("prod", "default", "web", "", addr.V6), "default/web"},
		{KeyOf("prod", "default", "web", "a/b", addr.V4), "default/shared:a%2Fb"},
		{"", ""},
		{"default/web", ""},
		{"prod/default//v4", ""},
		{"prod/default/web/v4/more", ""},
	} {
		if got := HolderOf(tt.key); got != tt.want {
			t.Errorf("%q is of %q, want %q", tt.key, got, tt.want)
		}
	}
}
