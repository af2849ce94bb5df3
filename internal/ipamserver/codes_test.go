package ipamserver

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"purelb.io/purelb/internal/ipam"
)

func codeOf(err error) string { return status.Code(err).String() }

func TestEachKindOfErrorHasItsCode(t *testing.T) {
	for kind, want := range map[ipam.Kind]codes.Code{
		ipam.KindExhausted:     codes.ResourceExhausted,
		ipam.KindTaken:         codes.AlreadyExists,
		ipam.KindInvalid:       codes.InvalidArgument,
		ipam.KindMisconfigured: codes.FailedPrecondition,
		ipam.KindUnavailable:   codes.Unavailable,
		ipam.KindUnknown:       codes.Unknown,
		"of a later driver":    codes.Unknown,
	} {
		err := statusOf(&ipam.Error{Kind: kind, Message: "why"})
		if status.Code(err) != want || status.Convert(err).Message() != "why" {
			t.Errorf("%s becomes %v, want %s", kind, err, want)
		}
	}
}

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
