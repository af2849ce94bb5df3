package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"purelb.io/purelb/internal/addr"
)

// Claim asks a backend for one address.
//
// A backend grants a claim once: the same Key always gets the same address, until
// it is released. So a claim whose answer was lost is repeated unchanged.
type Claim struct {
	// Key names the claim on the backend. It is never empty: see KeyOf.
	Key string
	// Group is the ServiceGroup that the address is for, as Services name it.
	Group string
	// Service is the first Service that asked, as "namespace/name", for people.
	Service string
	// SharingKey is that of the Services which share the address; "" is for an
	// address of one Service.
	SharingKey string
	// Family is that of the address.
	Family addr.Family
	// Address is the one that the Service asks for. The zero address leaves the
	// choice to the backend.
	Address netip.Addr
	// Hostname is the DNS name that the Service wants for the address, for backends
	// that record it; "" is for none.
	Hostname string
}

// KeyOf returns the key of c, which does not depend on the address that c asks for. The
// cluster is its name, or the UID of its namespace kube-system where it has no name: a
// cluster that is built anew from its manifests under the same name finds its claims
// again. Services that share an address have one claim, which names their sharing key in
// place of a Service. The key names the group because groups may share a backend, and a
// Service that moves from one to the other has a claim in each for a moment.
//
// The parts contain no slash and no blank: they are names of Kubernetes objects, and
// the others are escaped.
func KeyOf(cluster string, c Claim) string {
	namespace, name, _ := strings.Cut(c.Service, "/")
	if c.SharingKey != "" {
		name = sharedPrefix + escape(c.SharingKey)
	}
	return strings.Join([]string{cluster, namespace, name, escape(c.Group), fmt.Sprintf("v%d", c.Family)}, "/")
}

// KeyIn returns the key of the same holder for family f.
func KeyIn(key string, f addr.Family) string {
	return key[:strings.LastIndex(key, "/")+1] + fmt.Sprintf("v%d", f)
}

// KeyPrefix returns what all keys of a cluster begin with.
func KeyPrefix(cluster string) string { return cluster + "/" }

// HolderOf returns what a key is for: "namespace/name" of a Service, or
// "namespace/shared:KEY" for the Services that share by that key. It is the same for both
// families, and "" for what is no key. A key without a part for the group is one, too: that
// of an IPAM server has its pool in the first part.
func HolderOf(key string) string {
	parts := strings.Split(key, "/")
	if len(parts) < 4 || len(parts) > 5 || slices.Contains(parts, "") {
		return ""
	}
	return parts[1] + "/" + parts[2]
}

// OwnerOf returns the Service that a key is for. It returns "" for a key of Services that
// share an address.
func OwnerOf(key string) Owner {
	holder := HolderOf(key)
	if strings.Contains(holder, "/"+sharedPrefix) {
		return ""
	}
	return Owner(holder)
}

// sharedPrefix begins the name in a key of Services that share an address. No Service has
// such a name.
const sharedPrefix = "shared:"

// escape writes text, such as a sharing key, which users choose freely, without slashes,
// blanks and control characters.
func escape(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f || c == '/' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// Grant is an address that a backend holds for a claim.
type Grant struct {
	Key     string
	Address netip.Addr
	// Bits is the length of the mask that the backend has for the address; 0 when it
	// does not tell.
	Bits int
	// Object shows people where the backend holds the address, such as a URL; "" when
	// it has no such place.
	Object string
	// Created is when the backend made the grant, by its own clock; zero when it does
	// not tell.
	Created time.Time
}

// Answer is what a backend says to one claim: a grant or an error, which is mostly an
// *Error.
type Answer struct {
	Grant Grant
	Err   error
	// Surplus are further addresses that the backend holds for the holder of the key, and
	// that no claim of the call was granted. The caller releases, with the key of the claim, those
	// that none of its grants has: only the caller knows its grants.
	Surplus []netip.Addr
	// New says that the call itself made the grant. So nothing has it yet, and a caller that
	// gives it back at once takes it from no Service. Only NetBox tells.
	New bool
}

// Capacity is what a backend says of the addresses that it has for a group.
type Capacity struct {
	// Backend is what answers, with its version: "NetBox 4.6.8".
	Backend string
	// Known says that the sizes are known.
	Known bool
	// InUse and Size count addresses of a family.
	InUse, Size map[addr.Family]uint64
	// Ranges are what the addresses are from, as people write it: prefixes or ranges.
	Ranges []string
}

// Kind says what an error of a backend means for a claim or a release.
type Kind string

const (
	// KindExhausted is a pool without a free address.
	KindExhausted Kind = "Exhausted"
	// KindTaken is an address, asked for by name, that has another holder.
	KindTaken Kind = "Taken"
	// KindInvalid is a request that can never succeed as it is.
	KindInvalid Kind = "Invalid"
	// KindMisconfigured is a backend that does not let us do what we must: a wrong
	// token, a missing right, a prefix that is not there.
	KindMisconfigured Kind = "Misconfigured"
	// KindUnavailable is a backend that did not get the request or refused to work on
	// it: nothing was done.
	KindUnavailable Kind = "Unavailable"
	// KindUnknown is a request that may have been carried out, now or later: the
	// connection broke, the answer did not come in time, or the server failed.
	KindUnknown Kind = "Unknown"
)

// Error is why a backend did not do what was asked.
type Error struct {
	Kind Kind
	// Message says what went wrong and how to mend it. It never holds a credential.
	Message string
	// RetryAfter is how long the backend asks to be left alone; 0 when it does not.
	RetryAfter time.Duration
	// Cause is the error below, if there is one.
	Cause error
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.Cause }

// AsError returns err as an *Error. What a driver cannot name is not known.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: KindUnknown, Message: err.Error(), Cause: err}
}
