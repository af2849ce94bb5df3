package config

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"purelb.io/purelb/internal/addr"
)

// Everywhere, in a list of further namespaces, stands for all namespaces.
const Everywhere = "*"

// Namespaces reads the list of further namespaces as operators write it: separated by commas, or
// Everywhere.
func Namespaces(text string) ([]string, error) {
	var namespaces []string
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if name == "" {
			continue
		}
		if name != Everywhere && len(validation.IsDNS1123Label(name)) > 0 {
			return nil, fmt.Errorf("%s is not a namespace; write namespaces separated by commas, or * for all", addr.Quote(name))
		}
		namespaces = append(namespaces, name)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces), nil
}

// Watched returns the namespaces to watch so that For gets all objects that it uses. The result is
// metav1.NamespaceAll alone if For uses all namespaces.
func Watched(installNamespace string, others []string) []string {
	if slices.Contains(others, Everywhere) {
		return []string{metav1.NamespaceAll}
	}
	namespaces := append([]string{installNamespace}, others...)
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// InScope reports whether For uses objects of namespace.
func InScope(namespace, installNamespace string, others []string) bool {
	return namespace == installNamespace || slices.Contains(others, Everywhere) || slices.Contains(others, namespace)
}
