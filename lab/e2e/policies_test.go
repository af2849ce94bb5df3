package e2e

import (
	"strings"
	"testing"

	"purelb.io/purelb/lab/cluster"
)

// TestAdmissionPoliciesAreSoundchecks that Kubernetes has type-checked every expression
// and has no warning.
func TestAdmissionPoliciesAreSound(t *testing.T) {
	w := newWorld(t)
	const policies = `{range .items[?(@.status.observedGeneration)]}{.metadata.name} {.status.typeChecking.expressionWarnings}{"\n"}{end}`
	var checked []string
	w.until(patience, "Kubernetes has checked the policies", func() bool {
		out, err := lab.Exec(w.ctx, cluster.ControlPlane, "kubectl", "get", "validatingadmissionpolicies", "--output", "jsonpath="+policies)
		checked = strings.Split(strings.TrimSpace(out), "\n")
		return err == nil && len(checked) >= 5
	})
	for _, line := range checked {
		if name, warnings, _ := strings.Cut(line, " "); strings.TrimSpace(warnings) != "" {
			t.Errorf("Kubernetes has a warning about the policy %s: %s", name, warnings)
		}
	}
}
