package netbox

import (
	"errors"
	"slices"

	"purelb.io/purelb/internal/addr"
	"purelb.io/purelb/internal/ipam"
)

// board has the answers to the claims of one call. If a key occurs twice in a call, it is claimed
// once, because NetBox does not notice the repetition in a list.
type board struct {
	claims  []ipam.Claim
	answers map[string]ipam.Answer
	// stop is the reason why nothing more is sent to NetBox.
	stop *ipam.Error
}

func newBoard(claims []ipam.Claim) *board {
	b := &board{answers: map[string]ipam.Answer{}}
	seen := map[string]bool{}
	for _, c := range claims {
		c.Address = c.Address.Unmap()
		if !seen[c.Key] {
			seen[c.Key] = true
			b.claims = append(b.claims, c)
		}
	}
	return b
}

// waiting returns the claims without an answer that match selects.
func (b *board) waiting(match func(ipam.Claim) bool) []ipam.Claim {
	var list []ipam.Claim
	for _, c := range b.claims {
		if _, answered := b.answers[c.Key]; !answered && match(c) {
			list = append(list, c)
		}
	}
	return list
}

func anyClaim(ipam.Claim) bool { return true }

func namedClaim(c ipam.Claim) bool { return c.Address.IsValid() }

// unnamed selects the claims of a family whose address the backend chooses.
func unnamed(f addr.Family) func(ipam.Claim) bool {
	return func(c ipam.Claim) bool { return c.Family == f && !namedClaim(c) }
}

// grant answers c with an address that was just created for it.
func (b *board) grant(c ipam.Claim, g ipam.Grant) {
	b.answers[c.Key] = ipam.Answer{Grant: g, New: true}
}

// fail answers claims with an error. If other claims would get the same error, the board stops
// all further requests to NetBox.
func (b *board) fail(claims []ipam.Claim, err error) {
	for _, c := range claims {
		b.answers[c.Key] = ipam.Answer{Err: err}
	}
	var e *ipam.Error
	if errors.As(err, &e) && slices.Contains([]ipam.Kind{ipam.KindMisconfigured, ipam.KindUnavailable, ipam.KindUnknown}, e.Kind) {
		b.stop = e
	}
}

// failRest answers the claims that were not sent because of an earlier error.
func (b *board) failRest(claims []ipam.Claim) {
	if b.stop == nil {
		return
	}
	e := *b.stop
	if e.Kind == ipam.KindUnknown {
		e.Kind = ipam.KindUnavailable
		e.Message = "not tried after an error: " + e.Message
	}
	for _, c := range claims {
		b.answers[c.Key] = ipam.Answer{Err: &e}
	}
}

// list returns the answers in the order of claims.
func (b *board) list(claims []ipam.Claim) []ipam.Answer {
	first := map[string]ipam.Claim{}
	for _, c := range b.claims {
		first[c.Key] = c
	}
	answers := make([]ipam.Answer, len(claims))
	for i, c := range claims {
		answers[i] = b.answers[c.Key]
		if same := first[c.Key]; same.Family != c.Family || same.Address != c.Address.Unmap() {
			answers[i] = ipam.Answer{Err: &ipam.Error{Kind: ipam.KindInvalid,
				Message: "the key " + c.Key + " is claimed twice at once, for different addresses"}}
		}
	}
	return answers
}

func keysOf(claims []ipam.Claim) []string {
	var keys []string
	for _, c := range claims {
		keys = append(keys, c.Key)
	}
	return keys
}
