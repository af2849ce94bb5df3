package ipamgrpc

import (
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"purelb.io/purelb/internal/allocate/ipam"
)

// method is the called method, by its name for people.
type method string

const (
	allocateFamilies method = "Allocate"
	allocateExplicit method = "Allocate of named addresses"
	releaseOne       method = "Release"
	releaseAll       method = "Release of everything"
	statistics       method = "Stats"
)

// refusals are the codes by which a server says that it did nothing. With any other code,
// it may have performed the call.
var refusals = map[codes.Code]ipam.Kind{
	codes.InvalidArgument:    ipam.KindInvalid,
	codes.OutOfRange:         ipam.KindInvalid,
	codes.NotFound:           ipam.KindMisconfigured,
	codes.FailedPrecondition: ipam.KindMisconfigured,
	codes.Unimplemented:      ipam.KindMisconfigured,
	codes.PermissionDenied:   ipam.KindMisconfigured,
	codes.Unauthenticated:    ipam.KindMisconfigured,
	codes.Unavailable:        ipam.KindUnavailable,
}

// twoReadings is added to ALREADY_EXISTS, because servers use this code with two meanings.
const twoReadings = "this code is for an address that another Service holds; a server that means " +
	"that this Service has its addresses already must answer with OK and the addresses"

// refusal explains an error with which a server ended a call.
func (c *connection) refusal(rpc method, s *status.Status, err error) *ipam.Error {
	says := text(s.Message())
	kind, refused := refusals[s.Code()]
	switch {
	case s.Code() == codes.ResourceExhausted && rpc.allocates():
		kind = ipam.KindExhausted
	case s.Code() == codes.AlreadyExists && rpc.allocates():
		kind, says = ipam.KindUnknown, says+"; "+twoReadings
		if rpc == allocateExplicit {
			kind = ipam.KindTaken
		}
	case !refused:
		kind = ipam.KindUnknown
	}
	return c.fault(kind, err, "answers %s with %s: %s", rpc, s.Code(), says)
}

func (m method) allocates() bool { return m == allocateFamilies || m == allocateExplicit }

// longestText limits how much of a server's message is shown. Events have room for 1024 bytes.
const longestText = 256

// text makes a server's message fit for logs, events and conditions.
func text(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
	if runes := []rune(s); len(runes) > longestText {
		return string(runes[:longestText]) + "..."
	}
	return s
}
