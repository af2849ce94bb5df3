package importer_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"purelb.io/purelb/internal/explain/importer"
	"purelb.io/purelb/internal/testing/expect"
)

// An annotation of a Service must not become an object of the manifest, or a command in a comment.
func TestAnAnnotationStaysInItsComment(t *testing.T) {
	for _, end := range []string{"\n", "\r", "\u0085", "\u2028"} {
		m := &importer.Source{Services: []corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "web", Annotations: map[string]string{
			"metallb.io/allow-shared-ip": "x'; reboot; '" + end + "---" + end + "kind: ClusterRoleBinding",
		}}}}}
		got, err := m.Translate("metallb", "purelb-system").Manifest("MetalLB", "metallb")
		expect.NoError(t, err)
		if want := `'purelb.io/allow-shared-ip=x'\''; reboot; '\'' --- kind: ClusterRoleBinding'` + "\n"; !strings.HasSuffix(string(got), want) {
			t.Errorf("the manifest is\n%q\nwant the end %q", got, want)
		}
	}
}
