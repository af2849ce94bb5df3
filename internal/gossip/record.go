package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

// Record is what a node agent tells the others of its node.
type Record struct {
	// Subnets are those of the node's links that may carry local addresses.
	Subnets []netip.Prefix
	// Own are the addresses that the node has itself.
	Own []netip.Addr
	// Draining says that the node should rather not be chosen.
	Draining bool
	// Truncated says that Subnets or Own are not complete, because they did
	// not fit or could not be read: the node's Lease has them all.
	Truncated bool
	// Digest stands for what the node's Lease says: it changes with that. Others are
	// told of it where the record is truncated. 0 is none.
	Digest uint64
}

// A record is sent as its version, its flags, and two lists, each a count in one
// byte and then the entries: for a prefix the family (4 or 6), the bits and as
// many bytes as have some of them, for an address the family and its bytes. Version 1 of
// the protocol ends there. Now follow the lowest and the highest version of the protocol
// that the process understands, and its patience in tenths of a second. If the flags say
// so, the digest of its Lease follows in eight bytes. What follows is for later versions to
// add, and is not looked at.
const (
	recordVersion = 1

	flagDraining  = 1 << 0
	flagTruncated = 1 << 1
	flagLeaving   = 1 << 2
	flagBeats     = 1 << 3
	flagDigest    = 1 << 4

	flagsAt = 1 // the place of the flags
)

var errRecord = errors.New("malformed record")

// errLaterRecord is a record of which this process cannot even read the beginning.
var errLaterRecord = errors.New("record of a later version")

// encode returns r of a process with these versions and this patience, in as many bytes as
// may be sent, in the same for equal sets.
// What does not fit is left out, first of all the node's own addresses: with a subnet
// all of those are left out.
func (r Record) encode(versions span, patience time.Duration) []byte {
	if versions == unstated {
		return r.encodeBefore(nil)
	}
	end := []byte{versions.min, versions.max, byte(patience / patienceUnit)}
	buf := r.encodeBefore(end)
	if buf[flagsAt]&flagTruncated == 0 || r.Digest == 0 {
		return buf
	}
	buf = r.encodeBefore(binary.BigEndian.AppendUint64(end, r.Digest))
	buf[flagsAt] |= flagDigest
	return buf
}

// encodeBefore returns what all versions begin with, followed by end.
func (r Record) encodeBefore(end []byte) []byte {
	buf := []byte{recordVersion, flagBeats, 0}
	if r.Draining {
		buf[flagsAt] |= flagDraining
	}
	count := len(buf) - 1
	// The byte that is left free for now is the count of addresses.
	room := memberlist.MetaMaxSize - len(end) - 1
	subnets := sorted(r.Subnets, func(p netip.Prefix) netip.Prefix {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()).Masked()
	}, netip.Prefix.Compare)
	buf, whole := appendEntries(buf, count, room, subnets, appendPrefix)

	buf = append(buf, 0)
	own := sorted(r.Own, func(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }, netip.Addr.Compare)
	// A reader that finds an address of the node takes the subnets for complete.
	all := false
	if whole {
		buf, all = appendEntries(buf, len(buf)-1, room+1, own, appendAddr)
	}
	if r.Truncated || !all {
		buf[flagsAt] |= flagTruncated
	}
	return append(buf, end...)
}

// sorted returns the valid ones of list in their plain form, each once.
func sorted[E interface {
	comparable
	IsValid() bool
}](list []E, plain func(E) E, compare func(a, b E) int) []E {
	var valid []E
	for _, e := range list {
		if p := plain(e); p.IsValid() {
			valid = append(valid, p)
		}
	}
	slices.SortFunc(valid, compare)
	return slices.Compact(valid)
}

// appendEntries appends entries while there is room, counts them in the byte at
// count, and says whether all are in.
func appendEntries[E any](buf []byte, count, room int, entries []E, add func([]byte, E) []byte) ([]byte, bool) {
	for _, e := range entries {
		longer := add(buf, e)
		if len(longer) > room || longer[count] == 255 {
			return buf, false
		}
		buf = longer
		buf[count]++
	}
	return buf, true
}

func appendPrefix(buf []byte, p netip.Prefix) []byte {
	bytes := p.Addr().AsSlice()[:(p.Bits()+7)/8]
	return append(append(buf, family(p.Addr()), byte(p.Bits())), bytes...)
}

func appendAddr(buf []byte, a netip.Addr) []byte {
	return append(append(buf, family(a)), a.AsSlice()...)
}

func family(a netip.Addr) byte {
	if a.Is4() {
		return 4
	}
	return 6
}

// said is what a process says: the Record of its node, whether it says goodbye, whether
// it promises heartbeats, the versions that it understands and its patience.
type said struct {
	Record
	leaving, beats bool
	versions       span
	patience       time.Duration
	version        byte // the highest that this process understands too, 0 is none
}

// decode reads what encode wrote.
func decode(buf []byte) (r said, err error) {
	if len(buf) < 2 {
		return said{}, fmt.Errorf("%w: %d bytes", errRecord, len(buf))
	}
	if buf[0] > recordVersion {
		return said{}, fmt.Errorf("%w: %d", errLaterRecord, buf[0])
	}
	if buf[0] != recordVersion {
		return said{}, fmt.Errorf("%w: version %d", errRecord, buf[0])
	}
	flags := buf[flagsAt]
	r.Draining, r.Truncated = flags&flagDraining != 0, flags&flagTruncated != 0
	r.leaving, r.beats = flags&flagLeaving != 0, flags&flagBeats != 0
	in := reader{rest: buf[2:]}
	for range in.byte() {
		r.Subnets = append(r.Subnets, in.prefix())
	}
	for range in.byte() {
		r.Own = append(r.Own, in.addr(in.byte(), 128))
	}
	r.versions, r.patience = unstated, DefaultPatience
	if len(in.rest) > 0 {
		r.versions, r.patience = span{in.byte(), in.byte()}, readPatience(in.byte())
	}
	if flags&flagDigest != 0 {
		for range 8 {
			r.Digest = r.Digest<<8 | uint64(in.byte())
		}
	}
	if in.bad || r.versions.min == 0 || r.versions.max < r.versions.min {
		return said{}, errRecord
	}
	return r, nil
}

// reader takes apart what is left of a record. Once something was wrong it is bad
// and returns nothing of use.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) byte() byte {
	if r.bad || len(r.rest) == 0 {
		r.bad = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) prefix() netip.Prefix {
	kind, bits := r.byte(), int(r.byte())
	a := r.addr(kind, bits)
	if r.bad = r.bad || bits > a.BitLen(); r.bad {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, bits).Masked()
}

// addr reads as many bytes of an address as have some of its first bits.
func (r *reader) addr(kind byte, bits int) netip.Addr {
	size := map[byte]int{4: 4, 6: 16}[kind]
	n := min((bits+7)/8, size)
	if r.bad = r.bad || size == 0 || len(r.rest) < n; r.bad {
		return netip.Addr{}
	}
	var bytes [16]byte
	copy(bytes[:], r.rest[:n])
	r.rest = r.rest[n:]
	a, _ := netip.AddrFromSlice(bytes[:size])
	return a
}
