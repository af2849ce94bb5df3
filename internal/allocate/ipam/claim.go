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
	// SharingKey is the key of the Services that share the address. It is "" if the Service does
	// not share.
	SharingKey string
	// Family is the family of the address.
	Family addr.Family
	// Address is the address that the Service asks for. The zero address leaves the choice
	// to the backend.
	Address netip.Addr
	// Hostname is the DNS name that the Service wants for the address, for backends
	// that record it; "" is for none.
	Hostname string
}

// KeyOf returns the key of c, which does not depend on the address that c asks for. cluster is the
// cluster's name, or the UID of its namespace kube-system if it has no name. A cluster that is
// rebuilt from its manifests under the same name finds its claims again. Services that share an
// address have one claim. Its key has their sharing key in place of a Service's name. The key names
// the group because groups may share a backend: a Service that moves between two groups has a claim
// in each for a moment.
//
// The parts contain no slash and no blank: they are names of Kubernetes objects, or they
// are escaped.
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

// KeyPrefix returns the common prefix of all keys of a cluster.
func KeyPrefix(cluster string) string { return cluster + "/" }

// HolderOf returns the holder of a key: "namespace/name" of a Service, or "namespace/shared:KEY"
// for the Services that share by that key. It is the same for both families. It is "" for text that
// is no key. A key without a part for the group is also valid: the key of an IPAM server has the
// pool in its first part.
func HolderOf(key string) string {
	parts := strings.Split(key, "/")
	if len(parts) < 4 || len(parts) > 5 || slices.Contains(parts, "") {
		return ""
	}
	return parts[1] + "/" + parts[2]
}

// OwnerOf returns the Service of a key. It returns "" for a key of Services that share an
// address.
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

// escape writes text without slashes, blanks and control characters. Users choose text such
// as a sharing key freely.
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

// Grant is an address that a backend holds for a claim. In a release, a Grant without an address
// stands for everything that the backend has for the holder of its Key, of both families.
type Grant struct {
	Key     string
	Address netip.Addr
	// Object shows people where the backend holds the address, such as a URL. It is "" if
	// there is no such place.
	Object string
}

// Answer is the answer of a backend to one claim: a grant or an error, usually an *Error. The grant
// for a claim that names an address is that address.
type Answer struct {
	Grant Grant
	Err   error
	// Surplus are further addresses that the backend holds for the holder of the key, without a
	// grant to a claim of this call. The caller releases them with the key of the claim. It keeps
	// those for which it has another grant, because only the caller knows its grants.
	Surplus []netip.Addr
}

// Capacity is what a backend reports about the addresses that it has for a group.
type Capacity struct {
	// Backend is the name of the backend, with its version: "NetBox 4.6.8".
	Backend string
	// Known says that the sizes are known.
	Known bool
	// InUse and Size count addresses of a family.
	InUse, Size map[addr.Family]uint64
	// Ranges are the prefixes or ranges that the addresses come from, as people write them.
	Ranges []string
}

// Kind says what an error of a backend means for a claim or a release.
type Kind string

const (
	// KindExhausted means that the pool has no free address.
	KindExhausted Kind = "Exhausted"
	// KindTaken means that the requested address has another holder.
	KindTaken Kind = "Taken"
	// KindInvalid means that the request can never succeed as it is.
	KindInvalid Kind = "Invalid"
	// KindMisconfigured means that the backend does not let PureLB do its work: a wrong
	// token, a missing right, a missing prefix.
	KindMisconfigured Kind = "Misconfigured"
	// KindUnavailable means that the backend did not get the request, or refused to process
	// it. Nothing was done.
	KindUnavailable Kind = "Unavailable"
	// KindUnknown means that the backend may have performed the request, or may still do
	// so: the connection broke, the answer was late, or the server failed.
	KindUnknown Kind = "Unknown"
)

// Error is why a backend did not perform a request.
type Error struct {
	Kind Kind
	// Message says what is wrong and how to correct it. It never holds a credential.
	Message string
	// RetryAfter is the pause that the backend asks for, 0 if it asks for none.
	RetryAfter time.Duration
	// Cause is the underlying error, if there is one.
	Cause error
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.Cause }

// Root returns the error that prevented the attempt of e, if there is one, and otherwise e. So all
// errors of an outage have the same message.
func (e *Error) Root() *Error {
	var cause *Error
	for errors.As(e.Cause, &cause) {
		e = cause
	}
	return e
}

// AsError returns err as an *Error. An error that the driver has not classified has
// KindUnknown.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: KindUnknown, Message: err.Error(), Cause: err}
}
