package chart

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

// In YAML, 123 is a number and true is a boolean. Kubernetes accepts both as names, but only as
// strings.
func TestNamesThatLookLikeNumbersStayStrings(t *testing.T) {
	objects, err := renderAs(t, "123", "456", `
nameOverride: "true"
priorityClassName: "1"
configNamespaces: ["2"]
gossip: {secretName: "3"}
serviceGroup: {create: true, name: "4", spec: {local: {v4pools: []}}}
lbnodeagent: {agents: [{name: "5", spec: {local: {}}}]}
Prometheus:
  dashboards: {enabled: true, namespace: "7"}
  allocator: {serviceMonitor: {enabled: true}, prometheusRules: {enabled: true, namespace: "8"}}
`)
	expect.NoError(t, err)
	for _, o := range objects {
		if err := decode(t, o); err != nil {
			t.Errorf("%s: %v", o.GetName(), err)
		}
	}
}

// decode reads o into its Go type. It reads only the metadata of objects that are not
// Kubernetes' own.
func decode(t *testing.T, o *unstructured.Unstructured) error {
	t.Helper()
	text, err := json.Marshal(o)
	expect.NoError(t, err)
	_, _, err = scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
	if runtime.IsNotRegisteredError(err) {
		return json.Unmarshal(text, &metav1.PartialObjectMetadata{})
	}
	return err
}

// With null, a user removes a default. Helm then renders without the key, as it also does with
// --reuse-values for a key that the older chart did not have.
func TestANullIsEmptyOrNamed(t *testing.T) {
	var values map[string]any
	expect.NoError(t, yaml.Unmarshal([]byte(apitest.Text(t, "charts/purelb/values.yaml")), &values))
	empty, nothing, needed := nulls("", values)
	for _, o := range mustRender(t, jsonOf(t, empty)) {
		if err := decode(t, o); err != nil {
			t.Errorf("%s: %v", o.GetName(), err)
		}
	}
	_, err := renderAll(t, jsonOf(t, nothing))
	for _, path := range needed {
		section, name := filepath.Split("/" + strings.ReplaceAll(path, ".", "/"))
		named := regexp.MustCompile("at '" + strings.TrimSuffix(section, "/") + "': missing propert(y|ies) .*'" + name + "'")
		if err == nil || !named.MatchString(err.Error()) {
			t.Errorf("the error does not name %s: %v", path, err)
		}
	}
}

// nulls returns values with null in place of all that may be empty, and with null everywhere, and the paths
// of the values that may not be empty.
func nulls(path string, values map[string]any) (empty, nothing map[string]any, needed []string) {
	empty, nothing = map[string]any{}, map[string]any{}
	for key, value := range values {
		here := strings.TrimPrefix(path+"."+key, ".")
		section, isMap := value.(map[string]any)
		_, isList := value.([]any)
		switch {
		case isMap && len(section) > 0 && !free[key]:
			var more []string
			empty[key], nothing[key], more = nulls(here, section)
			needed = append(needed, more...)
			continue
		case isMap, isList && key != "endpoints", value == "", key == "tolerationSeconds", key == "priorityClassName":
			empty[key] = nil
		default:
			needed = append(needed, here)
		}
		nothing[key] = nil
	}
	return empty, nothing, needed
}

// free are the maps with defaults whose keys are those of Kubernetes or of the user.
var free = map[string]bool{
	"startupProbe": true, "livenessProbe": true, "readinessProbe": true, "updateStrategy": true, "resources": true, "securityContext": true, "containerSecurityContext": true, "labels": true,
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	expect.NoError(t, err)
	return string(text)
}
