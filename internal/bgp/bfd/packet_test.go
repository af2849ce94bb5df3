package bfd

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/testing/expect"
)

// valid is a packet with a poll of an FRR session that is Up.
const valid = "20e00318 00000002 00000001 000493e0 00030d40 0000c350"

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	expect.NoError(t, err)
	return b
}

func TestInvalidPacketsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name, packet string
		want         error
	}{
		{"a valid one", valid, nil},
		{"with bytes behind it", valid + "ffff", nil},
		{"with the diagnostic of a later standard", "3fe00318 00000002 00000001 000493e0 00030d40 0000c350", nil},
		{"nothing", "", errLength},
		{"truncated", "20e00318 00000002 00000001 000493e0 00030d40 0000c3", errLength},
		{"of version 0", "00e00318 00000002 00000001 000493e0 00030d40 0000c350", errVersion},
		{"of version 2", "40e00318 00000002 00000001 000493e0 00030d40 0000c350", errVersion},
		{"with a length that is too short", "20e00317 00000002 00000001 000493e0 00030d40 0000c350", errLength},
		{"with a length that is too long", "20e00319 00000002 00000001 000493e0 00030d40 0000c350", errLength},
		{"with multiplier 0", "20e00018 00000002 00000001 000493e0 00030d40 0000c350", errMultiplier},
		{"multipoint", "20e10318 00000002 00000001 000493e0 00030d40 0000c350", errMultipoint},
		{"without a sender's discriminator", "20e00318 00000000 00000001 000493e0 00030d40 0000c350", errDiscriminator},
		{"Up, without a receiver's discriminator", "20e00318 00000002 00000000 000493e0 00030d40 0000c350", errNobody},
		{"Init, without a receiver's discriminator", "20a00318 00000002 00000000 000493e0 00030d40 0000c350", errNobody},
		{"Down, without a receiver's discriminator", "20600318 00000002 00000000 000493e0 00030d40 0000c350", nil},
		{"AdminDown, without a receiver's discriminator", "20200318 00000002 00000000 000493e0 00030d40 0000c350", nil},
		{"authenticated", "20e4031c 00000002 00000001 000493e0 00030d40 0000c350 01040161", errAuthenticated},
		{"authenticated, without authentication data", "20e40318 00000002 00000001 000493e0 00030d40 0000c350", errAuthenticated},
		{"with poll and final", "20f00318 00000002 00000001 000493e0 00030d40 0000c350", errPollAndFinal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := decode(unhex(t, tt.packet)); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestDecodeReadsAllFields(t *testing.T) {
	for packet, want := range map[string]control{
		valid: {
			state: Up, poll: true, multiplier: 3, mine: 2, yours: 1, desiredMinTx: 300 * ms, minRx: 200 * ms,
		},
		"21520518 000000aa 000000bb 000f4240 00000000 00000000": {
			state: Down, diagnostic: timeExpired, final: true, multiplier: 5,
			mine: 0xaa, yours: 0xbb, desiredMinTx: 1000 * ms,
		},
	} {
		got, err := decode(unhex(t, packet))
		expect.NoError(t, err)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(control{})); diff != "" {
			t.Errorf("%s:\n%s", packet, diff)
		}
	}
}
