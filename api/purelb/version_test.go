package purelb_test

import (
	"cmp"
	"encoding/json"
	"os"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

func TestVersionOfTheWriterSetsDefaults(t *testing.T) {
	const stays = ""
	for _, tt := range []struct{ name, version, spec, want string }{
		{"a v1 local group may be anywhere", "v1", "{local: {v4pools: [POOL]}}", "{local: {announce: auto, v4pools: [POOL]}}"},
		{"a v2 local group is local", "v2", "{local: {v6pool: POOL6}}", "{local: {announce: local, v6pool: POOL6}}"},
		{"v1 can say local", "v1", "{local: {announce: local, pool: 192.0.2.0/24, subnet: 192.0.2.0/24}}", stays},
		{"v2 can say auto", "v2", "{local: {announce: auto, v4pool: POOL}}", stays},
		{"the flat form", "v1", "{name: here, pool: 192.0.2.1-192.0.2.9, subnet: 192.0.2.0/24, aggregation: default}", stays},
		{"the flat form through v2", "v2", "{pool: '2001:db8::1-2001:db8::9', subnet: '2001:db8::/64'}", stays},
		{"a remote group has no defaults", "v1", "{remote: {v4pool: {pool: 192.0.2.0/24, subnet: 192.0.2.0/24, aggregation: /32}}}", stays},
		{"a boundary has no defaults", "v2", "{remote: {v4pool: POOL}, namespaces: [a], namespaceSelector: {}}", stays},
		{"the defaults of netbox depend on its mode", "v1", "{netbox: {url: 'https://netbox.example.com/'}}", stays},
		{
			"external has a well-known socket", "v2",
			"{external: {provider: acme, announce: remote}}", "{external: {provider: acme, announce: remote, socket: /var/run/purelb/ipam.sock}}",
		},
		{"an agent has no defaults", "v1", "agent: {local: {}}", stays},
		{"an agent through v2 has no defaults", "v2", "agent: {local: {}}", stays},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, want := objectOf(t, tt.version, tt.spec), objectOf(t, tt.version, cmp.Or(tt.want, tt.spec))
			create(t, o)
			wantSpec(t, o, "v1", want)
			wantSpec(t, o, "v2", want)
		})
	}
}

func TestVersionsDifferInOneDefault(t *testing.T) {
	for _, file := range []string{"purelb.io_servicegroups.yaml", "purelb.io_lbnodeagents.yaml"} {
		crd := apitest.As[apiextensionsv1.CustomResourceDefinition](t, apitest.Objects(t, "charts/purelb/crds/"+file)[0])
		if len(crd.Spec.Versions) != 2 {
			t.Fatalf("%s has %d versions", crd.Name, len(crd.Spec.Versions))
		}
		v1, v2 := crd.Spec.Versions[0], crd.Spec.Versions[1]
		if v1.Name != "v1" || v1.Storage || !v1.Served || v2.Name != "v2" || !v2.Storage || !v2.Served {
			t.Errorf("%s: want v1 and v2 served and v2 stored", crd.Name)
		}
		setAnnounceDefault(v1.Schema, v2.Schema)
		takeDescriptions(t, crd.Name, v2.Schema.OpenAPIV3Schema)
		v1.Name, v1.Storage = v2.Name, v2.Storage
		if diff := gocmp.Diff(v1, v2); diff != "" {
			t.Errorf("%s (-v1 +v2):\n%s", crd.Name, diff)
		}
	}
}

// setAnnounceDefault copies the default of spec.local.announce, if the field exists, from the other
// schema.
func setAnnounceDefault(schema, from *apiextensionsv1.CustomResourceValidation) {
	local, ok := schema.OpenAPIV3Schema.Properties["spec"].Properties["local"]
	announce, ok2 := local.Properties["announce"]
	if !ok || !ok2 || string(announce.Default.Raw) != `"auto"` {
		return
	}
	other := from.OpenAPIV3Schema.Properties["spec"].Properties["local"].Properties["announce"].Default.Raw
	announce.Default = &apiextensionsv1.JSON{Raw: json.RawMessage(other)}
	local.Properties["announce"] = announce
}

// takeDescriptions checks that all fields of a schema have descriptions, and removes these: v1 has
// none, because kubectl explain shows v2.
func takeDescriptions(t *testing.T, path string, schema *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	schema.Description = ""
	for name, field := range schema.Properties {
		if field.Description == "" && name != "metadata" {
			t.Errorf("%s.%s has no description", path, name)
		}
		takeDescriptions(t, path+"."+name, &field)
		schema.Properties[name] = field
	}
	if schema.Items != nil {
		takeDescriptions(t, path+"[]", schema.Items.Schema)
	}
}

// TestDefinitionsAreSmall: kubectl apply stores a definition in an annotation a second time, and an
// API server keeps several forms of each version of it in memory.
func TestDefinitionsAreSmall(t *testing.T) {
	const most = 150_000
	folder := apitest.File(t, "charts/purelb/crds")
	files, err := os.ReadDir(folder)
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files in %s, %v", len(files), folder, err)
	}
	for _, f := range files {
		info, err := f.Info()
		expect.NoError(t, err)
		if info.Size() > most {
			t.Errorf("%s has %d bytes, more than %d", f.Name(), info.Size(), most)
		}
	}
}

func TestKubectlExplainsTheStoredVersion(t *testing.T) {
	for field, want := range map[string]string{
		"servicegroup.spec.remote.v6pools.pool": "as in \"2001:db8::100/120\"",
		"lbnodeagent.spec.local.localInterface": "localInterface",
	} {
		out, err := apitest.Shared(t).Kubectl("", "explain", field)
		text := strings.Join(strings.Fields(out), " ")
		if err != nil || !strings.Contains(text, "VERSION: v2") || !strings.Contains(text, "DESCRIPTION: "+field[strings.LastIndex(field, ".")+1:]+" ") || !strings.Contains(text, want) {
			t.Errorf("kubectl explain %s: %v\n%s", field, err, out)
		}
	}
}
