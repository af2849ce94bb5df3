package ipamserver

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"purelb.io/purelb/internal/netbox"
)

func read(t *testing.T, text string) (Config, error) {
	t.Helper()
	t.Setenv("NETBOX_TOKEN", "0123456789abcdef0123456789abcdef01234567")
	name := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Read(name)
	if err != nil {
		t.Log(strings.ReplaceAll(err.Error(), name, "config.yaml"))
	}
	return c, err
}

func TestAPoolHasTheFieldsOfANetBoxGroup(t *testing.T) {
	got, err := read(t, `
cluster: prod
pools:
  team-a/public:
    url: https://netbox.example.com/
    tokenEnv: NETBOX_TOKEN
    parents:
    - prefixID: 4
    - rangeID: 5
    - prefix: {cidr: 192.0.2.0/24, vrf: lb, site: berlin}
    - range: {start: 198.51.100.10, role: lb, tag: lb, tenant: web}
    tenant: web-shop
    field: claim
    status: reserved
    role: vip
    tags: [lb-managed]
`)
	want := Config{Pools: map[string]Pool{"team-a/public": {
		Source: Source{URL: "https://netbox.example.com/", TokenEnv: "NETBOX_TOKEN"},
		Group: netbox.Group{
			Name: "team-a/public", Cluster: "prod:team-a:public", Mode: netbox.ModePrefix,
			Parents: []netbox.Parent{
				{Kind: netbox.Prefix, ID: 4},
				{Kind: netbox.Range, ID: 5},
				{Kind: netbox.Prefix, Prefix: netip.MustParsePrefix("192.0.2.0/24"), VRF: "lb", Site: "berlin"},
				{Kind: netbox.Range, Start: netip.MustParseAddr("198.51.100.10"), Role: "lb", Tag: "lb", Tenant: "web"},
			},
			Tenant: "web-shop", Field: "claim", Status: "reserved", Role: "vip", Tags: []string{"lb-managed"},
		},
	}}}
	same := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	samePrefix := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
	if diff := cmp.Diff(want, got, same, samePrefix); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestConfigurationErrorsNameTheCure(t *testing.T) {
	const good = "{url: 'https://netbox.example.com', tokenEnv: NETBOX_TOKEN, parents: [{prefixID: 1}]}"
	pool := func(fields string) string { return "cluster: prod\npools: {default: {" + fields + "}}" }
	const there, token, parents = "url: 'https://netbox.example.com'", ", tokenEnv: NETBOX_TOKEN", ", parents: [{prefixID: 1}]"
	for _, tt := range []struct{ name, text, want string }{
		{"no YAML", "cluster: [", "this is not YAML (yaml: line 1: did not find expected node content): correct it there"},
		{"a field twice", "cluster: a\ncluster: b", `line 2: key "cluster" already set in map`},
		{"an unknown field", pool(there + token + parents + ", tenat: web"), `unknown field "pools.default.tenat": correct its name, or remove it`},
		{"another type", "cluster: prod\npools: [default]", "pools: this is not for a value of the type array: write it as docs/ipam.md shows"},
		{"no fields", "default", "all of it: this is not for a value of the type string: write it as docs/ipam.md shows"},
		{"nothing", "", "cluster: nothing is written here: write a name of this cluster"},
		{"no pools", "cluster: prod", "pools: there is none: write one for each ServiceGroup"},
		{"a wrong cluster", "cluster: a:b\npools: {default: " + good + "}", `cluster: "a:b" has a slash, a colon or a blank: write one word`},
		{"a wrong pool", "cluster: prod\npools: {'a b': " + good + "}", `pools: "a b" is not the name of a ServiceGroup: write that name`},
		{"no URL", pool("tokenEnv: NETBOX_TOKEN" + parents), "pools.default.url: this is not the URL of a NetBox server: write it as https://"},
		{"a wrong URL", pool("url: netbox.example.com" + token + parents), "pools.default.url: this is not the URL of a NetBox server: write it as https://"},
		{"no token", pool(there + parents), "pools.default.tokenFile: write either tokenFile"},
		{"two tokens", pool(there + token + ", tokenFile: /token" + parents), "pools.default.tokenFile: write either tokenFile"},
		{"an empty variable", pool(there + ", tokenEnv: NO_TOKEN" + parents), "pools.default.tokenEnv: the environment variable NO_TOKEN is empty: put an API token"},
		{"no token file", pool(there + ", tokenFile: /none/token" + parents), "pools.default.tokenFile: open /none/token: no such file or directory: mount the Secret"},
		{"no CA file", pool(there + token + ", caFile: /none/ca.crt" + parents), "pools.default.caFile: open /none/ca.crt: no such file or directory: mount the certificates"},
		{"an empty CA file", pool(there + token + ", caFile: /dev/null" + parents), "pools.default.caFile: /dev/null is empty: mount the certificates"},
		{"a wrong CA file", pool(there + token + ", caFile: /proc/self/status" + parents), "pools.default: the CA certificates for NetBox hold no certificate in PEM format"},
		{"no parents", pool(there + token), "pools.default.parents: no prefix or IP range of NetBox is written here"},
		{"an empty parent", pool(there + token + ", parents: [{}]"), "pools.default.parents[0]: exactly one of prefixID, rangeID, prefix and range must be given, and 0 are"},
		{"a wrong prefix", pool(there + token + ", parents: [{prefixID: 1}, {prefix: {cidr: 192.0.2.0}}]"), `pools.default.parents[1].prefix.cidr: "192.0.2.0": the mask is missing; for this one address write 192.0.2.0/32`},
		{"bits after the mask", pool(there + token + ", parents: [{prefix: {cidr: 192.0.2.1/24}}]"), `pools.default.parents[0].prefix.cidr: "192.0.2.1/24" has bits after its mask: write 192.0.2.0/24`},
		{"a wrong start", pool(there + token + ", parents: [{range: {start: 192.0.2.0/24}}]"), `pools.default.parents[0].range.start: "192.0.2.0/24" is not an IP address: write the first one`},
		{"a wrong field", pool(there + token + parents + ", field: a-b"), `pools.default.field: "a-b" is not the name of a custom field: use letters`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := read(t, tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	_, err := read(t, "cluster: prod\npools: {a: {url: x, tokenEnv: NETBOX_TOKEN, parents: [{prefixID: 1}]}, b: {url: 'https://x', parents: [{prefixID: 1}]}}")
	if err == nil || strings.Count(err.Error(), "config.yaml: pools.") != 2 {
		t.Errorf("the error is %v, want a line for each pool", err)
	}
}

func TestErrorDoesNotContainTheToken(t *testing.T) {
	t.Setenv("SECRET", "top secret")
	_, err := read(t, "cluster: prod\npools: {a: {url: 'https://x', tokenEnv: SECRET, parents: [{prefixID: 1}]}}")
	if err == nil || strings.Contains(err.Error(), "top") {
		t.Errorf("got %v", err)
	}
}

func TestMissingConfigurationIsAnError(t *testing.T) {
	if _, err := Read("/none/config.yaml"); err == nil || !strings.Contains(err.Error(), "give the file with --config") {
		t.Errorf("got %v", err)
	}
}
