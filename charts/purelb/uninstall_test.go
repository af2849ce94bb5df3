package chart

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"purelb.io/purelb/internal/testing/apitest"
)

// Nothing but the Job can remove the finalizers after the allocator is gone.
func TestUninstallRemovesFinalizers(t *testing.T) {
	objects, err := renderAll(t, "purelb", "purelb-system", "", "--show-only", "templates/uninstall.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, o := range objects {
		kinds = append(kinds, o.GetKind())
		if a := o.GetAnnotations(); a["helm.sh/hook"] != "post-delete" || !strings.Contains(a["helm.sh/hook-delete-policy"], "hook-succeeded") {
			t.Errorf("%s is installed, or stays: %v", o.GetKind(), a)
		}
	}
	if want := []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Job"}; !slices.Equal(kinds, want) {
		t.Fatalf("the hook has %q, want %q", kinds, want)
	}
	pod := apitest.As[batchv1.Job](t, objects[3]).Spec.Template.Spec
	if got := pod.Containers[0].Args; !slices.Equal(got, []string{"--remove-finalizers"}) || pod.ServiceAccountName != "purelb-uninstall" {
		t.Errorf("the Job runs %q as %s", got, pod.ServiceAccountName)
	}
}
