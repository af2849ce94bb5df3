package config

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Severity distinguishes a problem that puts its object out of use from a warning.
type Severity string

const (
	// Refused objects are not in use.
	Refused Severity = "Refused"
	// Warning objects are in use, but a part of their settings has no effect.
	Warning Severity = "Warning"
)

// Reasons of problems, as they appear in conditions.
const (
	ReasonAccepted   = "Accepted"
	ReasonParseError = "ParseError"
	ReasonOverlaps   = "Overlaps"
	ReasonDuplicate  = "Duplicate"
	ReasonOutOfScope = "OutOfScope"
	// ReasonClusterNetwork is the reason for groups with addresses that the cluster
	// uses itself.
	ReasonClusterNetwork = "ClusterNetwork"
	// ReasonAdjusted is only for warnings: something other than the written value
	// is in effect.
	ReasonAdjusted = "Adjusted"
	// ReasonNotSupported is the reason for settings that PureLB had, or that another
	// generation has, and that have no effect any more.
	ReasonNotSupported = "NotSupported"
)

// Kinds of the objects that problems are about.
const (
	KindServiceGroup = "ServiceGroup"
	KindLBNodeAgent  = "LBNodeAgent"
)

// Problem is one mistake in one object.
type Problem struct {
	Kind            string
	Namespace, Name string
	UID             types.UID
	Severity        Severity
	Reason          string
	// Field is the path of the wrong field, such as "spec.local.v4pools[1].pool".
	// It is "" if the problem is about the whole object.
	Field string
	// Message says what is wrong and how to correct it.
	Message string
}

// String returns the message after the field that it is about.
func (p Problem) String() string {
	if p.Field == "" {
		return p.Message
	}
	return p.Field + ": " + p.Message
}

// findings collects the problems of one object while it is read.
type findings struct {
	// about is a Problem with only the object filled in.
	about    Problem
	problems []Problem
}

func findingsOf(kind string, o metav1.ObjectMeta) *findings {
	return &findings{about: Problem{
		Kind: kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID,
	}}
}

// refuse adds a problem that puts the object out of use.
func (f *findings) refuse(reason, field, format string, args ...any) {
	f.add(Refused, reason, field, format, args)
}

// warn adds a problem that leaves the object in use.
func (f *findings) warn(reason, field, format string, args ...any) {
	f.add(Warning, reason, field, format, args)
}

func (f *findings) add(s Severity, reason, field, format string, args []any) {
	p := f.about
	p.Severity, p.Reason, p.Field, p.Message = s, reason, field, fmt.Sprintf(format, args...)
	f.problems = append(f.problems, p)
}

// refused reports whether the object is out of use.
func (f *findings) refused() bool {
	return slices.ContainsFunc(f.problems, func(p Problem) bool { return p.Severity == Refused })
}

// byObject orders Config.Problems.
func byObject(a, b Problem) int {
	return cmp.Or(
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}
