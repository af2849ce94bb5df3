package purelb_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"purelb.io/purelb/internal/testing/apitest"
	"purelb.io/purelb/internal/testing/expect"
)

// outside is the message of the rule for a range and its subnet.
const outside = "pool must lie inside subnet: make the range smaller or the subnet larger"

// TestRules plays the scenes of testdata. A scene has specs, and after each spec the API server's
// messages about an object that is wrong by itself, whatever other objects exist.
// TestVersionsDifferInOneDefault shows that v1 has the same rules.
func TestRules(t *testing.T) {
	expect.Scenes(t, "testdata/*.txt", false, func(t *testing.T, script string) (played string) {
		for line := range strings.Lines(script) {
			spec := strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(spec, "-> ") {
				continue
			}
			played += "\n" + spec
			if got := refusals(t, objectOf(t, "v2", spec)); got != "" {
				played += "\n-> " + strings.ReplaceAll(got, "\n", "\n-> ")
			}
		}
		return strings.TrimPrefix(played, "\n")
	})
}

func TestTooMuchIsRefused(t *testing.T) {
	const pool = "{local: {v4pool: {subnet: 192.0.2.0/24, "
	for _, tt := range []struct{ spec, want string }{
		{pool + "pool: '" + strings.Repeat("1", 129) + "'}}}", "spec.local.v4pool.pool: Too long: may not be more than 128 bytes"},
		{pool + "pool: 192.0.2.0/24, exclude: ['" + strings.Repeat("1", 97) + "']}}}", "spec.local.v4pool.exclude[0]: Too long: may not be more than 96 bytes"},
		{pool + "pool: 192.0.2.0/24, exclude: [" + strings.Repeat("192.0.2.1, ", 65) + "]}}}", "spec.local.v4pool.exclude: Too many: 65: must have at most 64 items"},
		{"{netbox: {url: 'http://n', parents: [" + strings.Repeat("{prefixID: 1}, ", 33) + "]}}", "spec.netbox.parents: Too many: 33: must have at most 32 items"},
		{"{remote: {v4pool: POOL}, bgp: {communities: [" + strings.Repeat("'65000:1', ", 65) + "]}}", "spec.bgp.communities: Too many: 65: must have at most 64 items"},
	} {
		expect.Equal(t, "the refusal", refusals(t, objectOf(t, "v2", tt.spec)), tt.want)
	}
}

// TestTheLargestObjectIsWithinTheServersLimits: the API server limits the cost of the validation
// rules of one object.
func TestTheLargestObjectIsWithinTheServersLimits(t *testing.T) {
	address, slug := strings.Repeat("f", 126), strings.Repeat("s", 100)
	pools := strings.Repeat("{pool: '"+address+"/9', subnet: '"+address[:62]+"/9', aggregation: /128}, ", 256)
	namespaces := strings.Repeat(strings.Repeat("n", 63)+", ", 1024)
	exclude := strings.Repeat(address[:93]+"/9, ", 64)
	most := strings.Repeat("{pool: 192.0.2.0/24, subnet: 192.0.2.0/24, exclude: ["+exclude+"]}, ", 200) // the store accepts hardly more exclusions
	spaces := strings.Repeat(" ", 47)
	ranges := strings.Repeat("{pool: '255.255.255.254 "+spaces+"-"+spaces+" 255.255.255.255', subnet: 255.255.255.0/24}, ", 256)
	parents := strings.Repeat("{prefix: {cidr: '"+address[:60]+"/64', vrf: "+slug+", role: "+slug+", tag: "+slug+", tenant: "+slug+", site: "+slug+"}}, ", 32)
	url, tags := "https://"+strings.Repeat("n", 2000), strings.Repeat(slug+", ", 32)
	var names []string
	for i := range 64 {
		names = append(names, fmt.Sprintf("interface-%05d", i))
	}
	for _, spec := range []string{
		"{local: {v4pools: [" + pools + "], v6pools: [" + pools + "]}, namespaces: [" + namespaces + "], enforceNamespaces: true}",
		"{remote: {v4pools: [" + most + "]}}",
		"{remote: {v4pools: [" + ranges + "], v6pools: [" + ranges + "]}}",
		"{netbox: {url: '" + url + "', parents: [" + parents + "], tags: [" + tags + "], role: " + slug + "}}",
		"agent: {local: {interfaces: [" + strings.Join(names, ", ") + "]}}",
	} {
		if got := refusals(t, objectOf(t, "v2", spec)); got != "" {
			t.Error(got)
		}
	}
}

// refusals tries to create o. It returns the objections of the API server, by field, without the
// wrong values.
func refusals(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	refused := typed(t).Create(context.Background(), o, client.DryRunAll)
	return oldLimit.ReplaceAllString(apitest.Refusals(t, refused), "may not be more than $1 bytes")
}

// oldLimit is how Kubernetes before 1.32 says that a text is too long.
var oldLimit = regexp.MustCompile(`may not be longer than ([0-9]+)`)
