package bfd

import (
	"errors"
	"time"

	codec "github.com/osrg/gobgp/v4/pkg/packet/bfd"
)

// control is the content of a BFD Control packet (RFC 5880, section 4.1).
type control struct {
	state               State
	diagnostic          Diagnostic
	poll, final         bool
	multiplier          uint8
	mine, yours         uint32 // the discriminators of its sender and of its receiver
	desiredMinTx, minRx time.Duration
}

// Bits of the packet that the codec does not support.
const (
	flagAuthentication = 1 << 2
	flagMultipoint     = 1
)

// shortest is the length in bytes of a packet without authentication.
const shortest = 24

// The reasons to discard a packet, in the order of RFC 5880, section 6.8.6.
var (
	errVersion       = errors.New("not of version 1")
	errLength        = errors.New("the length is wrong")
	errMultiplier    = errors.New("the multiplier is 0")
	errMultipoint    = errors.New("the multipoint bit is set")
	errDiscriminator = errors.New("it comes from no session")
	errNobody        = errors.New("it is for no session, but the session has begun")
	errAuthenticated = errors.New("it is authenticated, which was not agreed")
	errPollAndFinal  = errors.New("it polls and answers a poll at once")
)

// decode decodes and validates a packet. It does not check for which session it is.
func decode(b []byte) (control, error) {
	switch {
	case len(b) < shortest:
		return control{}, errLength
	case b[0]>>5 != 1:
		return control{}, errVersion
	case int(b[3]) < shortest || int(b[3]) > len(b):
		return control{}, errLength
	}
	var h codec.BFDHeader
	// The codec allows no bytes after the packet. RFC 5880 does.
	if err := h.UnmarshalBinary(b[:b[3]]); err != nil {
		return control{}, err
	}
	c := control{
		state: State(h.State), diagnostic: Diagnostic(h.Diagnostic),
		poll: h.Poll, final: h.Final,
		multiplier: h.DetectTimeMultiplier,
		mine:       h.MyDiscriminator, yours: h.YourDiscriminator,
		desiredMinTx: microseconds(h.DesiredMinTxInterval), minRx: microseconds(h.RequiredMinRxInterval),
	}
	switch {
	case c.multiplier == 0:
		return control{}, errMultiplier
	case b[1]&flagMultipoint != 0:
		return control{}, errMultipoint
	case c.mine == 0:
		return control{}, errDiscriminator
	case c.yours == 0 && c.state != Down && c.state != AdminDown:
		return control{}, errNobody
	case b[1]&flagAuthentication != 0:
		return control{}, errAuthenticated
	case c.poll && c.final: // a sender must not send both (section 6.5)
		return control{}, errPollAndFinal
	}
	return c, nil
}

// encode encodes the packet.
func (c control) encode() ([]byte, error) {
	h := codec.BFDHeader{
		Version: 1, State: codec.StateType(c.state), Diagnostic: codec.DiagnosticType(c.diagnostic),
		Poll: c.poll, Final: c.final, DetectTimeMultiplier: c.multiplier,
		MyDiscriminator: c.mine, YourDiscriminator: c.yours,
		DesiredMinTxInterval:  uint32(c.desiredMinTx / time.Microsecond),
		RequiredMinRxInterval: uint32(c.minRx / time.Microsecond),
	}
	return h.MarshalBinary()
}

func microseconds(n uint32) time.Duration { return time.Duration(n) * time.Microsecond }
