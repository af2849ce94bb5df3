package addr_test

import (
	"net/netip"
	"testing"

	"purelb.io/purelb/internal/addr"
)

func TestAssignableAddresses(t *testing.T) {
	tests := []struct {
		address string
		want    bool
	}{
		{"192.0.2.1", true},
		{"10.0.0.0", true},
		{"169.253.255.255", true},
		{"169.255.0.0", true},
		{"240.0.0.1", true},
		{"255.255.255.254", true},
		{"::ffff:192.0.2.1", true},
		{"2001:db8::", true},
		{"fd00::1", true},
		{"", false},
		{"0.0.0.0", false},
		{"0.1.2.3", false},
		{"127.0.0.1", false},
		{"169.254.0.0", false},
		{"169.254.255.255", false},
		{"::ffff:169.254.1.1", false},
		{"224.0.0.1", false},
		{"239.255.255.255", false},
		{"255.255.255.255", false},
		{"::", false},
		{"::1", false},
		{"fe80::1", false},
		{"fe80::1%eth0", false},
		{"2001:db8::1%eth0", false},
		{"ff02::1", false},
	}
	for _, tt := range tests {
		a, _ := netip.ParseAddr(tt.address)
		if got := addr.Assignable(a); got != tt.want {
			t.Errorf("%q: got %t", tt.address, got)
		}
	}
}
