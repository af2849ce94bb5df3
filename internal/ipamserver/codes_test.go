package ipamserver

import (
	"errors"
	"fmt"
	"testing"

	"purelb.io/purelb/internal/ipam"
)

// To PureLB, every code but UNKNOWN proves that the server changed nothing.
func TestUnknownOutcomeOutranksRefusals(t *testing.T) {
	of := func(kind ipam.Kind) error { return &ipam.Error{Kind: kind} }
	for _, tt := range []struct {
		errs []error
		want ipam.Kind
	}{
		{[]error{nil, of(ipam.KindExhausted)}, ipam.KindExhausted},
		{[]error{of(ipam.KindExhausted), of(ipam.KindUnavailable)}, ipam.KindUnavailable},
		{[]error{of(ipam.KindUnavailable), of(ipam.KindUnknown)}, ipam.KindUnknown},
		{[]error{of(ipam.KindMisconfigured), of(ipam.KindUnknown)}, ipam.KindUnknown},
		{[]error{of(ipam.KindTaken), errors.New("not a driver error")}, ipam.KindUnknown},
		{[]error{of(ipam.KindMisconfigured), of("of a later driver")}, "of a later driver"},
	} {
		t.Run(fmt.Sprint(tt.errs), func(t *testing.T) {
			if got := worst(tt.errs); got == nil || got.Kind != tt.want {
				t.Errorf("got %v, want %s", got, tt.want)
			}
		})
	}
	if got := worst([]error{nil, nil}); got != nil {
		t.Errorf("no error becomes %v", got)
	}
}
