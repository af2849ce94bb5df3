package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"

	"purelb.io/purelb/internal/nodes/election"
)

// A record on the wire consists of its version, its flags, and two lists. A list is a count
// in one byte, followed by the entries. A prefix is its family (4 or 6), its number of
// bits, and the bytes that hold those bits. An address is its family and its bytes. After
// the lists come the lowest and the highest protocol version that the process understands,
// and its patience in tenths of a second. If its flag is set, the digest of the Lease follows
// in eight bytes. A reader ignores further bytes, so later versions can append fields.
const (
	recordVersion = 1

	flagDraining  = 1 << 0
	flagTruncated = 1 << 1
	flagLeaving   = 1 << 2
	flagBeats     = 1 << 3 // always set: the process sends heartbeats
	flagDigest    = 1 << 5

	flagsAt = 1 // the offset of the flags
)

var errRecord = errors.New("malformed record")

// errLaterRecord means that this process cannot read even the beginning of a record.
var errLaterRecord = errors.New("record of a later version")

// encode returns r as the record of a process with these versions and this patience. Equal sets
// give equal bytes. The result fits into the size that the library sends: encode leaves out
// the subnets and the own addresses that do not fit. If it leaves out a subnet, it leaves
// out all own addresses.
func encode(r election.Record, versions span, patience time.Duration) []byte {
	buf, end := []byte{recordVersion, flagBeats, 0}, []byte{versions.min, versions.max, byte(patience / patienceUnit)}
	if r.Digest != 0 {
		buf[flagsAt] |= flagDigest
		end = binary.BigEndian.AppendUint64(end, r.Digest)
	}
	if r.Draining {
		buf[flagsAt] |= flagDraining
	}
	count := len(buf) - 1
	// The reserved byte is for the count of addresses.
	room := memberlist.MetaMaxSize - len(end) - 1
	subnets := sorted(r.Subnets, func(p netip.Prefix) netip.Prefix {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()).Masked()
	}, netip.Prefix.Compare)
	buf, whole := appendEntries(buf, count, room, subnets, appendPrefix)

	buf = append(buf, 0)
	own := sorted(r.Own, func(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }, netip.Addr.Compare)
	// A reader that finds an own address concludes that the subnets are complete.
	all := false
	if whole {
		buf, all = appendEntries(buf, len(buf)-1, room+1, own, appendAddr)
	}
	if r.Truncated || !all {
		buf[flagsAt] |= flagTruncated
	}
	return append(buf, end...)
}

// sorted returns the valid elements of list in their plain form, sorted and without
// duplicates.
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

// appendEntries appends entries while there is room, and counts them in the byte at index
// count. It reports whether it appended all of them.
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

// said is a decoded record: the Record of the node, whether the process is leaving, and the versions
// that it understands.
type said struct {
	election.Record
	leaving  bool
	versions span
	version  byte // the highest version that this process understands too; 0 means none
}

// decode decodes the result of encode.
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
	r.leaving = flags&flagLeaving != 0
	in := reader{rest: buf[2:]}
	for range in.byte() {
		r.Subnets = append(r.Subnets, in.prefix())
	}
	for range in.byte() {
		r.Own = append(r.Own, in.addr(in.byte(), 128))
	}
	r.versions = span{in.byte(), in.byte()}
	_ = in.byte() // the patience, which only earlier versions read
	if flags&flagDigest != 0 {
		r.Digest = in.uint64()
	}
	if in.bad || r.versions.min == 0 || r.versions.max < r.versions.min {
		return said{}, errRecord
	}
	return r, nil
}

// reader decodes the rest of a record. After the first error bad is true, and the results
// have no meaning.
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

func (r *reader) uint64() (n uint64) {
	for range 8 {
		n = n<<8 | uint64(r.byte())
	}
	return n
}

func (r *reader) prefix() netip.Prefix {
	kind, bits := r.byte(), int(r.byte())
	a := r.addr(kind, bits)
	if r.bad = r.bad || bits > a.BitLen(); r.bad {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(a, bits).Masked()
}

// addr reads the bytes that hold the first bits of an address.
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
