package config

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	v2 "purelb.io/purelb/api/purelb/v2"
	"purelb.io/purelb/internal/groups"
)

// boundary reads which Services a group is for. If it cannot read a part, it still
// returns the rest.
func (f *findings) boundary(b v2.Boundary) groups.Boundary {
	read := groups.Boundary{
		NamespaceSelector: f.criterion("spec.namespaceSelector", b.NamespaceSelector),
		ServiceSelector:   f.criterion("spec.serviceSelector", b.ServiceSelector),
		Enforce:           b.EnforceNamespaces,
		Default:           b.NamespaceDefault,
		Priority:          b.Priority,
		ByName:            !or(b.AutoAssign, true),
	}
	for _, name := range b.Namespaces {
		read.Namespaces = append(read.Namespaces, string(name))
	}
	f.vain(b)
	return read
}

// criterion reads a selector. It returns nil if there is none, or if it cannot read it.
func (f *findings) criterion(field string, s *metav1.LabelSelector) labels.Selector {
	if s == nil {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		f.refuse(ReasonParseError, field, "%v: correct it, or remove it to choose without", err)
		return nil
	}
	return selector
}

// vain reports what has no effect in b.
func (f *findings) vain(b v2.Boundary) {
	if or(b.AutoAssign, true) {
		return
	}
	const byName = "is not in effect, because autoAssign is false: Services get addresses from this group only when they ask for it; remove one of them"
	if b.NamespaceDefault {
		f.warn(ReasonAdjusted, "spec.namespaceDefault", byName)
	}
	if b.Priority != nil {
		f.warn(ReasonAdjusted, "spec.priority", byName)
	}
}
